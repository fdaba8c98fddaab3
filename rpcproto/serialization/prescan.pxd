import cython

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport _memory as memory

cdef bytes STEPS
cdef bytes WEIGHTS

cpdef object check(object body, int max_depth=*, Py_ssize_t max_object_bytes=*)

@cython.locals(
    data="const unsigned char *", steps="const unsigned char *", weights="const unsigned char *",
    stack="Py_ssize_t[64]", depth=int, left=Py_ssize_t, keyed=int,
    end=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, first=int, step=int, width=int, size="long long", kind=int,
    weight=Py_ssize_t, containers=Py_ssize_t, entries=Py_ssize_t, large_maps=Py_ssize_t, tiny_keys=Py_ssize_t,
    found=int, described=bint,
)
cpdef int scan(object body, int max_depth, Py_ssize_t max_object_bytes) except -1
