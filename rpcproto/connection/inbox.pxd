from libc.stdint cimport uint64_t

from rpcproto.connection.handler cimport CallHandler
from rpcproto.connection.outbox cimport Outbox
from rpcproto.connection.window cimport ReceiveWindow
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly

cdef class Inbox:
    cdef Outbox outbox
    cdef CallHandler handler
    cdef object budget
    cdef long long call_window
    cdef readonly ReceiveWindow calls
    cdef readonly ReceiveWindow replies
    cdef readonly dict kept

    cpdef Py_ssize_t cost(self, long long size, long long head) noexcept
    cpdef Py_ssize_t cost_of(self, long long size, object metadata, object buffers) except -1
    cpdef object grant(self, ReceiveWindow window, long long amount)
    cpdef object on_answer(self, ReceiveWindow window)
    cpdef object keep(self, Assembly message)
    cpdef object reserve(self, Assembly message)
    cpdef object on_reserved(self, Assembly message)
    cpdef object drop(self, Assembly message)
    cpdef bint complete(self, uint64_t call_id) except -1
    cpdef object forget(self, Assembly message)
    cpdef object clear(self)
