import cython
from libc.stdint cimport uint64_t

from rpcproto.connection cimport _states as states
from rpcproto.connection.answering cimport Answering
from rpcproto.connection.calls cimport Flow, OutMessage, PendingCall, RunningCall
from rpcproto.connection.inbox cimport Inbox
from rpcproto.connection.outbox cimport Outbox
from rpcproto.connection.window cimport ItemWindow
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly

cdef class Flowing(Answering):
    @cython.locals(outbox=Outbox, call_id=uint64_t, message=OutMessage)
    cpdef object open_flow(self, Flow flow, int kind, str method, int codec, object body, object buffers,
                           Py_ssize_t size, double timeout, object metadata)
    @cython.locals(call_id=uint64_t)
    cpdef object accept_flow(self, Flow flow, RunningCall running)
    cdef ItemWindow _item_window(self, uint64_t call_id)
    @cython.locals(outbox=Outbox, cost=Py_ssize_t, message=OutMessage)
    cpdef bint send_item(self, Flow flow, int codec, object body, object buffers, Py_ssize_t size,
                         PendingCall handle) except -1
    @cython.locals(outbox=Outbox)
    cpdef bint may_send(self, Flow flow) except -1
    @cython.locals(outbox=Outbox)
    cpdef bint note_flushed(self, PendingCall handle) except -1
    cpdef object end_items(self, Flow flow, bint leave)
    cdef object _unsendable(self, Flow flow, Py_ssize_t size)
    cdef object _too_much(self, Flow flow)
    @cython.locals(outbox=Outbox, message=OutMessage)
    cdef object _pump(self, Flow flow)
    cpdef list take(self, Py_ssize_t limit)
    @cython.locals(freed=list, flow=Flow)
    cdef object _pump_freed(self)
    @cython.locals(inbox=Inbox, flow=Flow, cost=Py_ssize_t, credit="long long", kept=bint)
    cpdef int on_item(self, uint64_t call_id, int codec, int flags, object metadata, object body, object buffers,
                      Py_ssize_t size) except -1
    @cython.locals(amount="long long", message=Assembly)
    cpdef object taken(self, Flow flow, Py_ssize_t cost)
    @cython.locals(flow=Flow)
    cpdef object on_large_item(self, Assembly message, Py_ssize_t cost)
    @cython.locals(flow=Flow)
    cpdef object add_item_credit(self, uint64_t call_id, uint64_t amount)
    cdef object _stray_item(self, Flow flow, uint64_t call_id)
    cpdef object give_up_flow(self, Flow flow, int code)
    @cython.locals(running=RunningCall)
    cpdef object fail_flow(self, Flow flow, object error)
    cpdef object on_flow_cancel(self, Flow flow, int code)
    cdef object _check_over(self, Flow flow)
