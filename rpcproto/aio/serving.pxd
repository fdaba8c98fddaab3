import cython
from libc.stdint cimport uint64_t

from rpcproto cimport _clock
from rpcproto.aio cimport _tuning as tuning
from rpcproto.aio.context cimport CallContext, Current
from rpcproto.aio.items cimport Items
from rpcproto.aio.reply cimport WakeList
from rpcproto.connection.calls cimport RunningCall
from rpcproto.connection.connection cimport Connection
from rpcproto.connection.handler cimport CallHandler
from rpcproto.serialization.codec cimport Codec
from rpcproto.wire cimport spec

@cython.final
cdef class Entry:
    cdef readonly object handler
    cdef readonly object name
    cdef readonly int kind
    cdef readonly int mode
    cdef readonly object function
    cdef bint slow_told

cdef class Serving(CallHandler):
    cdef readonly dict entries
    cdef readonly Codec codec
    cdef Codec last_codec
    cdef readonly bint tracebacks
    cdef double slow_after
    cdef double prompt
    cdef double mark
    cdef list spare
    cdef WakeList wakes
    cdef readonly Current slot
    cdef public uint64_t failed_handlers
    cdef readonly Connection connection
    cdef public object peer
    cdef readonly object loop
    cdef public object link

    cdef Codec codec_of(self, int number)
    @cython.locals(served=Entry, connection=Connection, chosen=Codec, now=double, slot=Current)
    cpdef int on_call(self, object entry, int kind, uint64_t call_id, int codec, long long deadline_ms,
                      object metadata, object body, object buffers, Py_ssize_t size) except -1
    @cython.locals(connection=Connection, running=RunningCall, items=Items)
    cdef object _start(self, Entry entry, Codec codec, int kind, uint64_t call_id, Py_ssize_t size,
                       long long deadline_ms, object metadata, object args)
    cdef object _wrong_kind(self, Entry entry, int kind, uint64_t call_id)
    cdef object _answer(self, Entry entry, Codec codec, int kind, uint64_t call_id, Py_ssize_t size,
                        long long deadline_ms, object result)
    @cython.locals(connection=Connection, running=RunningCall)
    cdef object _continue(self, Entry entry, Codec codec, int kind, uint64_t call_id, Py_ssize_t size,
                          long long deadline_ms, object result)
    @cython.locals(connection=Connection)
    cpdef object finish(self, RunningCall running, object name, Codec codec, object result)
    @cython.locals(connection=Connection, buffers=list, size=Py_ssize_t)
    cpdef object send_result(self, object name, Codec codec, uint64_t call_id, object result, CallContext context)
    cpdef object send_error(self, uint64_t call_id, object error)
    cdef object _raised(self, Entry entry, int kind, uint64_t call_id, object args, object error)
    cdef object _bad_message(self, int kind, uint64_t call_id, object error)
    cdef object _was_slow(self, Entry entry, double seconds)
