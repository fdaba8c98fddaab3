# never compiled
# C bodies of _memory.py. A view is given back at once: the caller's own reference to the object keeps the memory.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t


cdef inline const unsigned char *address(object data) except? NULL:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    PyBuffer_Release(&view)
    return <const unsigned char *>view.buf


cdef inline long long big_endian(const unsigned char *data, Py_ssize_t at, int width) noexcept nogil:
    cdef long long value = 0
    cdef int i
    for i in range(width):
        value = value << 8 | data[at + i]
    return value


cdef inline int64_t *integers(object data) except? NULL:
    return <int64_t *>address(data)
