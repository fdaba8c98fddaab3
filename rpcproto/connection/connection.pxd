import cython
from libc.stdint cimport uint64_t

from rpcproto.connection cimport _states as states
from rpcproto.connection.calls cimport Flow, PendingCall, RunningCall
from rpcproto.connection.flowing cimport Flowing
from rpcproto.connection.inbox cimport Inbox
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly

cdef class Connection(Flowing):
    cpdef object go_away(self, bint last)
    cpdef object abandon(self, int code, object text)
    cpdef object lost(self, object error)
    @cython.locals(call=PendingCall, flow=Flow, running=RunningCall, nearest=double, late=list)
    cpdef double on_time(self, double now) except? -1.0
    cdef object _open(self)
    @cython.locals(message=Assembly)
    cpdef object check_progress(self, double now)
