import cython
from libc.stdint cimport uint64_t

from rpcproto.connection.calls cimport OutMessage, PendingCall, RunningCall
from rpcproto.connection.handler cimport CallHandler
from rpcproto.connection.outbox cimport Outbox
from rpcproto.connection.window cimport ReceiveWindow
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly
from rpcproto.wire.decoder cimport Decoder
from rpcproto.wire.sink cimport FrameSink

cdef class Connection(FrameSink):
    cdef CallHandler handler
    cdef readonly object limits
    cdef readonly object timeouts
    cdef public uint64_t max_message
    cdef Py_ssize_t max_queued
    cdef object budget
    cdef public object peer
    cdef public Decoder decoder
    cdef readonly object greeting
    cdef readonly int state
    cdef readonly object end
    cdef readonly bint started_away
    cdef readonly Outbox outbox
    cdef int parity
    cdef readonly uint64_t next_id
    cdef readonly uint64_t last_id
    cdef readonly dict calls
    cdef readonly dict running
    cdef readonly Py_ssize_t running_size
    cdef list methods
    cdef readonly set opening
    cdef readonly dict claims
    cdef readonly dict pings
    cdef uint64_t ping_count
    cdef bint reading
    cdef readonly bint paused
    cdef readonly Py_ssize_t unsent
    cdef uint64_t credit_frames
    cdef uint64_t peer_max_message
    cdef readonly ReceiveWindow calls_window
    cdef readonly ReceiveWindow replies_window
    cdef object cancels
    cdef readonly double next_deadline
    cdef readonly uint64_t calls_opened
    cdef readonly uint64_t calls_served
    cdef readonly uint64_t late_replies
    cdef readonly uint64_t refused

    @cython.locals(outbox=Outbox, method_id=int, call_id=uint64_t, deadline=double, timeout_ms="long long", cost=Py_ssize_t,
                   message=OutMessage)
    cpdef object request(self, PendingCall call, str method, int codec, object body, object buffers, Py_ssize_t size,
                         double timeout)
    @cython.locals(outbox=Outbox, method_id=int, call_id=uint64_t, message=OutMessage)
    cpdef object notify(self, object handle, str method, int codec, object body, object buffers, Py_ssize_t size)
    cpdef object cancel_call(self, uint64_t call_id)
    cpdef object ping(self, object waiter)
    @cython.locals(outbox=Outbox, cost=Py_ssize_t)
    cpdef object reply(self, uint64_t call_id, int codec, object body, object buffers, Py_ssize_t size)
    cpdef object fail(self, uint64_t call_id, int code, object type_name, object text, object traceback)
    cpdef RunningCall begin(self, int kind, uint64_t call_id, int codec, object method, Py_ssize_t size,
                            long long deadline_ms)
    cpdef bint finished(self, RunningCall call) except -1
    cpdef object refuse(self, int kind, uint64_t call_id, int code, object text)
    cpdef list take(self, Py_ssize_t limit)
    cpdef Py_ssize_t queued(self) except -1
    cpdef object on_sent(self, Py_ssize_t unsent)
    cpdef object on_written(self, object handle)
    cpdef object go_away(self, bint last)
    cpdef object abandon(self, int code, object text)
    cpdef object lost(self, object error)
    @cython.locals(call=PendingCall, running=RunningCall, nearest=double, late=list)
    cpdef double on_time(self, double now) except? -1.0
    @cython.locals(message=Assembly)
    cpdef object check_progress(self, double now)
    @cython.locals(cost=Py_ssize_t, amount="long long")
    cpdef int on_open(self, int kind, uint64_t call_id, int codec, int method, object name, long long deadline_ms,
                      object metadata, object body, object buffers, Py_ssize_t size) except -1
    @cython.locals(cost=Py_ssize_t, amount="long long")
    cpdef int on_reply(self, uint64_t call_id, int codec, object metadata, object body, object buffers,
                       Py_ssize_t size) except -1
    cdef object _check_open(self, str method, int method_id, object buffers, Py_ssize_t size)
    cdef bint _head_fits(self, object buffers) except -1
    cdef object _too_large(self, object what, object size, object limit, object whose)
    cdef object _closed_error(self, object what)
    cdef object _lost_error(self, object what, bint sent)
    cdef object _close(self, object error)
    cdef object _bind(self, uint64_t call_id, int method, object name)
    cdef object _method(self, uint64_t call_id, int method)
    cdef object _turn_away(self, object entry, int kind, uint64_t call_id, int method, long long deadline_ms,
                           Py_ssize_t size)
    cdef Py_ssize_t _assembled(self, uint64_t call_id, Py_ssize_t size) except -1
    cdef Py_ssize_t _cost(self, long long size) noexcept
    cdef object _ask_budget(self, Assembly message)
    cpdef object on_admitted(self, Assembly message)
    cdef object _release(self, uint64_t call_id)
    cdef object _forget(self, Assembly message)
    cdef bint _drop_messages(self, uint64_t call_id) except -1
    cdef object _give_up(self, PendingCall call, int code)
    cdef object _send_cancel(self, uint64_t call_id, int code)
    cdef object _give_back(self, int aux, ReceiveWindow window, long long cost)
    cdef object _send_credit(self, int aux, ReceiveWindow window, long long amount)
    cdef object _send_ping(self, object waiter)
    cdef object _enlarge(self, int aux, ReceiveWindow window)
    cdef object _stray_reply(self, uint64_t call_id, object kind)
    cdef object _breach(self, uint64_t call_id, object text)
    cdef object _wrong_id(self, uint64_t call_id)
