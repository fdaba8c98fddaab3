from libc.stdint cimport uint64_t

from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec

cdef class Assembly:
    cdef readonly int kind
    cdef readonly uint64_t call_id
    cdef readonly int codec
    cdef readonly int flags
    cdef readonly long long body_size
    cdef readonly object sizes
    cdef readonly long long total
    cdef public int method
    cdef public object name
    cdef public long long deadline_ms
    cdef public object metadata
    cdef public long long expected
    cdef readonly int state
    cdef public double progress
    cdef public long long seen
    cdef readonly long long received
    cdef int tiny
    cdef object views
    cdef object view
    cdef Py_ssize_t index
    cdef Py_ssize_t at
    cdef Py_ssize_t end

    cpdef object admit(self)
    cpdef object discard(self)
    cpdef Py_ssize_t head_bytes(self) except -1
    cpdef list segment_sizes(self)
    cpdef object use(self, object views)
    cdef object store(self, object data, Py_ssize_t start, Py_ssize_t stop)
    cdef object room(self, Py_ssize_t most)
    cdef object filled(self, Py_ssize_t size)
    cdef object count(self, Py_ssize_t size, bint more)
    cdef tuple finish(self)
    cdef object _move(self, Py_ssize_t size)
    cdef object _next_view(self)
