import cython
from libc.stdint cimport uint64_t

from rpcproto.wire cimport _tuning as tuning
from rpcproto.connection.window cimport ItemWindow
from rpcproto.wire cimport spec
from rpcproto.wire.assembly cimport Assembly

cdef class PendingCall:
    cdef public uint64_t call_id
    cdef public object method
    cdef public double timeout
    cdef public double deadline
    cdef public bint sent

cdef class Flow(PendingCall):
    cdef readonly int kind
    cdef public long long credit
    cdef readonly ItemWindow window
    cdef public object queue
    cdef public Py_ssize_t queued
    cdef public bint busy
    cdef public bint ending
    cdef public bint leaving
    cdef public bint sent_all
    cdef public bint received_all
    cdef public Py_ssize_t held
    cdef public Assembly large
    cdef public bint over

    cpdef object open(self, int kind, uint64_t call_id, object method, long long credit, ItemWindow window, bint ours)
    cpdef list clear(self)

cdef class RunningCall:
    cdef readonly int kind
    cdef readonly uint64_t call_id
    cdef readonly int codec
    cdef readonly object method
    cdef readonly Py_ssize_t size
    cdef public double deadline
    cdef public object work
    cdef public object context
    cdef public bint over

    cdef object open(self, int kind, uint64_t call_id, int codec, object method, Py_ssize_t size, double deadline)

cdef class OutMessage:
    cdef readonly int kind
    cdef readonly int flags
    cdef readonly int codec
    cdef readonly uint64_t call_id
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t left
    cdef readonly object sizes
    cdef readonly Py_ssize_t body_size
    cdef readonly Py_ssize_t head_size
    cdef readonly object metadata
    cdef readonly list pieces
    cdef Py_ssize_t index
    cdef Py_ssize_t at
    cdef public bint begun
    cdef public bint admitted
    cdef public PendingCall call
    cdef public Flow flow
    cdef public PendingCall handle
    cdef public object method
    cdef public double deadline

    @cython.locals(cost=Py_ssize_t)
    cpdef Py_ssize_t cost(self, Py_ssize_t call_window)
    cpdef list cut(self, Py_ssize_t most)
