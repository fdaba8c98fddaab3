import cython
from libc.stdint cimport uint64_t

from rpcproto cimport _clock
from rpcproto.aio cimport _thread
from rpcproto.aio.context cimport CallContext, Current
from rpcproto.aio.items cimport Items
from rpcproto.aio.reply cimport Reply, WakeList, new_reply
from rpcproto.aio.serving cimport Entry
from rpcproto.aio.streaming cimport Streaming, to_seconds
from rpcproto.aio.writer cimport Writer
from rpcproto.connection.calls cimport PendingCall
from rpcproto.connection.connection cimport Connection
from rpcproto.serialization.codec cimport Codec
from rpcproto.wire cimport spec
from rpcproto.wire.decoder cimport Decoder

cdef class Session(Streaming):
    cdef readonly object runtime
    cdef readonly object limits
    cdef readonly object timeouts
    cdef object allocator
    cdef double request_timeout
    cdef readonly Decoder decoder
    cdef public Writer writer

    cpdef object attach(self, int role, object budget)
    @cython.locals(connection=Connection, buffers=list, size=Py_ssize_t, reply=Reply, slot=Current,
                   context=CallContext)
    cdef Reply _request(self, str method, tuple args, double seconds, Codec codec, object metadata)
    @cython.locals(reply=Reply, chosen=Codec)
    cpdef int on_reply(self, object call, int codec, object metadata, object body, object buffers) except -1
    cdef object _undecodable(self, Reply reply, object error)
    cpdef object ping_quietly(self)
    cpdef double on_time(self, double now) except? -1.0
