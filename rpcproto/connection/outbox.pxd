import cython
from libc.stdint cimport uint64_t

from rpcproto.connection.calls cimport OutMessage, PendingCall
from rpcproto.connection.framer cimport Framer
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec
from rpcproto.wire.encoder cimport Encoder

cdef class Outbox(Framer):
    cdef readonly Encoder control
    cdef readonly object bulk
    cdef readonly dict probing
    cdef readonly Py_ssize_t probing_size
    cdef readonly Py_ssize_t call_window
    cdef public Py_ssize_t credit_calls
    cdef public Py_ssize_t credit_replies
    cdef readonly object blocked_calls
    cdef readonly object blocked_replies
    cdef readonly dict blocked
    cdef readonly Py_ssize_t blocked_size
    cdef readonly dict pings
    cdef uint64_t ping_count
    cdef public bint reading
    cdef int gathered
    cdef readonly Py_ssize_t waiting
    cdef list small_handles
    cdef readonly list handles
    cdef readonly list freed

    cpdef object open(self, Py_ssize_t credit, Py_ssize_t call_window, Py_ssize_t max_frame)
    cdef object signal(self)
    @cython.locals(gathered=int)
    cpdef object signal_call(self, Py_ssize_t pending, Py_ssize_t size)
    cpdef object signal_item(self)
    cpdef object ping(self, object waiter)
    cpdef object give_credit(self, int aux, uint64_t call_id, uint64_t amount)
    cpdef Py_ssize_t sendable(self) noexcept
    @cython.locals(cost=Py_ssize_t, reply=bint)
    cpdef object send(self, OutMessage message)
    @cython.locals(have=Py_ssize_t)
    cpdef object add_credit(self, int aux, uint64_t amount)
    @cython.locals(cost=Py_ssize_t, message=OutMessage)
    cdef object _unblock(self, int aux)
    @cython.locals(size=Py_ssize_t)
    cdef object _put(self, OutMessage message, Py_ssize_t cost)
    cpdef object note(self, PendingCall handle)
    @cython.locals(message=OutMessage)
    cpdef bint admit(self, uint64_t call_id, uint64_t size)
    @cython.locals(message=OutMessage, queued=OutMessage)
    cpdef bint drop(self, uint64_t call_id)
    cdef object _skip_dropped(self)
    cdef object _add_bulk(self, OutMessage message)
    cpdef list waiting_notifies(self)
    cpdef PendingCall drop_notify(self, uint64_t call_id)
    cpdef list clear(self)
    @cython.locals(parts=list, taken=list, control=Encoder, small=Encoder)
    cpdef list take(self, Py_ssize_t limit)
    @cython.locals(message=OutMessage, before=Py_ssize_t, most=Py_ssize_t, small=Encoder, taken=list)
    cdef list _take_bulk(self, list parts, Py_ssize_t limit)
