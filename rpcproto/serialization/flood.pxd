import cython
from libc.stdint cimport int64_t, uint64_t

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport _memory as memory

@cython.locals(found=list, size=Py_ssize_t)
cpdef bint collide(object keys, Py_ssize_t count) except -1

@cython.locals(
    slots="int64_t *", values="int64_t *", mask=uint64_t, rest=uint64_t, slot=uint64_t, value=int64_t,
    number=Py_ssize_t, index=Py_ssize_t, steps=Py_ssize_t, same=int,
)
cdef bint _collide_at(object hashes, Py_ssize_t size) except -1
