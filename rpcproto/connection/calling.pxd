import cython
from libc.stdint cimport uint64_t

from rpcproto.connection cimport _states as states
from rpcproto.connection.calls cimport OutMessage, PendingCall
from rpcproto.connection.inbox cimport Inbox
from rpcproto.connection.outbox cimport Outbox
from rpcproto.connection.state cimport ConnectionState
from rpcproto.wire cimport spec

cdef class Calling(ConnectionState):
    @cython.locals(outbox=Outbox, method_id=int, call_id=uint64_t, deadline=double, timeout_ms="long long", cost=Py_ssize_t,
                   message=OutMessage)
    cpdef object request(self, PendingCall call, str method, int codec, object body, object buffers, Py_ssize_t size,
                         double timeout, object metadata)
    @cython.locals(outbox=Outbox, method_id=int, call_id=uint64_t, cost=Py_ssize_t, message=OutMessage)
    cpdef object notify(self, PendingCall handle, str method, int codec, object body, object buffers, Py_ssize_t size,
                        object metadata)
    cpdef object cancel_call(self, uint64_t call_id)
    cpdef object ping(self, object waiter)
    cpdef object on_written(self, PendingCall handle)
    @cython.locals(cost=Py_ssize_t, credit="long long", inbox=Inbox)
    cpdef int on_reply(self, uint64_t call_id, int codec, object metadata, object body, object buffers,
                       Py_ssize_t size) except -1
    @cython.locals(call_id=uint64_t)
    cdef uint64_t _new_call_id(self, str method, int method_id, object buffers, Py_ssize_t size) except 0
    cdef bint _head_fits(self, object buffers) except -1
    cdef object _give_up(self, PendingCall call, int code)
    cdef object _stray_reply(self, uint64_t call_id, object kind)
    cdef object _reply_too_large(self, PendingCall call, Py_ssize_t size)
