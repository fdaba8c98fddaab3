import cython

from rpcproto.aio cimport _tuning as tuning
from rpcproto.connection.connection cimport Connection
from rpcproto.transports cimport _sendmsg

@cython.final
cdef class Writer:
    cdef object __weakref__
    cdef object loop
    cdef object transport
    cdef readonly int descriptor
    cdef Connection connection
    cdef list parts
    cdef Py_ssize_t index
    cdef Py_ssize_t offset
    cdef readonly Py_ssize_t unsent
    cdef readonly bint blocked
    cdef bint scheduled
    cdef bint flushing
    cdef readonly unsigned long long sends
    cdef readonly unsigned long long bytes_sent
    cdef readonly object failed
    cdef list handles
    cdef public object on_drained

    cpdef object schedule(self)
    cpdef object flush_scheduled(self)
    cpdef object flush(self)
    @cython.locals(parts=list)
    cdef object _flush(self)
    cpdef object resume(self)
    cpdef object pause(self)
    cpdef bint drained(self) except -1
    cpdef list detach(self)
    @cython.locals(sent=Py_ssize_t)
    cdef object _send(self, list parts)
    @cython.locals(parts=list, size=Py_ssize_t)
    cdef object _advance(self, Py_ssize_t sent)
    cdef object _hand_over(self, list parts)
    cdef object _write(self, list parts)
    cdef object _hold_handles(self, list handles)
    cdef object _release_handles(self)
    cdef object _fail(self, object error)
