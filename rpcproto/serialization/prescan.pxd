import cython

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport _memory as memory

cdef bytes STEPS
cdef bytes WEIGHTS

cpdef object check(object body, int max_depth=*, Py_ssize_t max_object_bytes=*)

@cython.locals(
    data="const unsigned char *", steps="const unsigned char *", weights="const unsigned char *",
    stack="Py_ssize_t[64]", end=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, left=Py_ssize_t, size="long long",
    weight=Py_ssize_t, containers=Py_ssize_t, entries=Py_ssize_t, depth=int, keyed=int, found=int, first=int, step=int,
    width=int, kind=int, described=bint,
)
cpdef int scan(object body, int max_depth, Py_ssize_t max_object_bytes) except -1
