import cython

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport flood
from rpcproto.serialization.codec cimport flatten

cdef class Writer:
    cdef object pack
    cdef list buffers
    cdef Py_ssize_t base
    cdef bint careful

    cpdef object prepare(self, object value, int depth, bint hashed)
    cpdef tuple items(self, tuple args, int depth)
    @cython.locals(result=list, index=Py_ssize_t)
    cdef tuple _items(self, object value, tuple mark, int depth, bint hashed)
    @cython.locals(result=dict, in_key=bint)
    cdef dict _map(self, dict value, int depth)
    @cython.locals(result=list)
    cdef tuple _set(self, object value, object mark, int depth)
    cdef object _other(self, object value, object kind, bint hashed)
    cdef object _with_buffer(self, int code, object value, list description)

cdef int _check_depth(int depth) except -1
