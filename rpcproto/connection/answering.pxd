import cython
from libc.stdint cimport uint64_t

from rpcproto.connection cimport _states as states
from rpcproto.connection.calling cimport Calling
from rpcproto.connection.calls cimport Flow, OutMessage, RunningCall
from rpcproto.connection.inbox cimport Inbox
from rpcproto.connection.outbox cimport Outbox
from rpcproto.wire cimport spec

cdef class Answering(Calling):
    @cython.locals(outbox=Outbox, cost=Py_ssize_t)
    cpdef object reply(self, uint64_t call_id, int codec, object body, object buffers, Py_ssize_t size, object metadata)
    @cython.locals(flow=Flow)
    cpdef object fail(self, uint64_t call_id, int code, object type_name, object text, object traceback)
    @cython.locals(deadline=double, call=RunningCall)
    cpdef RunningCall begin(self, int kind, uint64_t call_id, int codec, object method, Py_ssize_t size,
                            long long deadline_ms, bint begun)
    cpdef bint finished(self, RunningCall call) except -1
    cpdef object refuse(self, int kind, uint64_t call_id, int code, object text)
    @cython.locals(cost=Py_ssize_t, credit="long long", inbox=Inbox)
    cpdef int on_open(self, int kind, uint64_t call_id, int codec, int method, object name, long long deadline_ms,
                      object metadata, object body, object buffers, Py_ssize_t size) except -1
    cdef object _bind(self, uint64_t call_id, int method, object name)
    cdef object _method(self, uint64_t call_id, int method)
    cdef object _turn_away(self, object entry, int kind, uint64_t call_id, long long deadline_ms, Py_ssize_t size)
    cdef object _wrong_id(self, uint64_t call_id)
    @cython.locals(count=Py_ssize_t)
    cdef bint _room(self, int kind, uint64_t call_id, Py_ssize_t size, bint begun) except -1
