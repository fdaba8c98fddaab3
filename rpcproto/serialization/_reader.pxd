import cython

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport flood, prescan

cdef class Reader:
    cdef list buffers
    cdef Py_ssize_t used
    cdef Py_ssize_t marks

    cpdef object read(self, object body, int found)
    cpdef object extension(self, int code, bytes data)
    cpdef object sequence(self, list items)
    cpdef dict mapping(self, list pairs)
    @cython.locals(count=Py_ssize_t)
    cdef object _described(self, int code, list description)
    cdef object _buffer(self, object source)

cdef list _description(bytes data)
