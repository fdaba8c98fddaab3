import cython
from libc.stdint cimport uint64_t

from rpcproto.connection cimport _states as states
from rpcproto.connection.calls cimport Flow, OutMessage, PendingCall, RunningCall
from rpcproto.connection.handler cimport CallHandler
from rpcproto.connection.inbox cimport Inbox
from rpcproto.connection.outbox cimport Outbox
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly
from rpcproto.wire.decoder cimport Decoder
from rpcproto.wire.sink cimport FrameSink

cdef class ConnectionState(FrameSink):
    cdef CallHandler handler
    cdef readonly object limits
    cdef readonly object timeouts
    cdef public uint64_t max_message
    cdef Py_ssize_t max_queued
    cdef Py_ssize_t max_running
    cdef Py_ssize_t max_running_bytes
    cdef public object peer
    cdef public Decoder decoder
    cdef readonly object greeting
    cdef public object authentication
    cdef readonly int state
    cdef readonly object end
    cdef readonly bint started_away
    cdef readonly Outbox outbox
    cdef readonly Inbox inbox
    cdef int parity
    cdef public uint64_t next_id
    cdef public uint64_t last_id
    cdef readonly dict calls
    cdef readonly dict running
    cdef readonly dict flows
    cdef readonly uint64_t items_sent
    cdef readonly Py_ssize_t running_size
    cdef list methods
    cdef readonly bint paused
    cdef readonly Py_ssize_t unsent
    cdef uint64_t credit_frames
    cdef uint64_t peer_max_message
    cdef object cancels
    cdef readonly double next_deadline
    cdef readonly uint64_t calls_opened
    cdef readonly uint64_t calls_served
    cdef readonly uint64_t late_replies
    cdef readonly uint64_t refused

    cpdef Py_ssize_t queued(self) except -1
    cpdef object on_sent(self, Py_ssize_t unsent)
    cdef object _expect(self, double deadline)
    cdef object _closed_error(self, object what)
    cdef object _lost_error(self, object what, bint sent)
    cdef object _close(self, object error)
    cdef bint _drop_messages(self, uint64_t call_id) except -1
    @cython.locals(flow=Flow, message=OutMessage)
    cdef Flow _end_flow(self, uint64_t call_id)
    cdef object _send_cancel(self, uint64_t call_id, int code)
    @cython.locals(running=RunningCall)
    cdef bint _is_closed(self, uint64_t call_id) except -1
    cdef object _breach(self, uint64_t call_id, object text)
