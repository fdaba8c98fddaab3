import cython
from libc.stdint cimport int64_t, uint64_t

from rpcproto.wire cimport _bytes, spec

@cython.final
cdef class Head:
    cdef readonly int method
    cdef public object name
    cdef readonly long long deadline_ms
    cdef public object metadata
    cdef public long long body_size
    cdef public object sizes
    cdef Py_ssize_t start
    cdef readonly Py_ssize_t need

    cpdef object clear(self)
    @cython.locals(parts=int)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t end,
                          uint64_t call_id) except -1
    @cython.locals(begin=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t _read_parts(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t end,
                               int parts, uint64_t call_id) except -1
    cdef bint _within(self, Py_ssize_t need, Py_ssize_t stop, Py_ssize_t end, uint64_t call_id) except -1
    cdef int64_t _announced(self, const unsigned char *data, Py_ssize_t at, uint64_t call_id) except -1
