import cython
from libc.stdint cimport uint64_t

from rpcproto cimport _clock
from rpcproto.aio.reply cimport Reply, WakeList, new_reply
from rpcproto.aio.serving cimport Entry, Serving
from rpcproto.aio.writer cimport Writer
from rpcproto.connection.calls cimport PendingCall
from rpcproto.connection.connection cimport Connection
from rpcproto.serialization.codec cimport Codec
from rpcproto.wire.decoder cimport Decoder

cdef double _seconds(object timeout) except? -1.0

cdef class Session(Serving):
    cdef readonly object runtime
    cdef WakeList wakes
    cdef readonly object limits
    cdef readonly object timeouts
    cdef object allocator
    cdef double request_timeout
    cdef bint holding
    cdef readonly Decoder decoder
    cdef public Writer writer

    cpdef object attach(self, int role, object budget)
    @cython.locals(connection=Connection, buffers=list, size=Py_ssize_t, reply=Reply)
    cdef Reply _request(self, str method, tuple args, double seconds, Codec codec)
    @cython.locals(reply=Reply, chosen=Codec)
    cpdef int on_reply(self, object call, int codec, object metadata, object body, object buffers) except -1
    cdef object _undecodable(self, Reply reply, object error)
    cpdef object ping_quietly(self)
    cpdef double on_time(self, double now) except? -1.0
