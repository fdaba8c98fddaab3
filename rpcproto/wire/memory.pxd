import cython

from rpcproto.wire cimport _bytes
from rpcproto.wire cimport _tuning as tuning

cdef class ReceiveArena:
    cdef bytearray memory
    cdef object small
    cdef object normal
    cdef object large
    cdef bint leased

cdef class ScratchStack:
    cdef readonly list free
    cdef readonly bytearray top

    @cython.locals(top=bytearray)
    cdef bytearray borrow(self)
    cdef void give_back(self, bytearray scratch)

cdef class BufferPool:
    cdef list held
    cdef Py_ssize_t held_bytes
    cdef Py_ssize_t next

    cpdef object allocate(self, Py_ssize_t size)
    cdef object _keep(self, bytearray memory)
    cdef object _view(self, bytearray memory, Py_ssize_t size)

cdef class LoopMemory:
    cdef readonly ReceiveArena arena
    cdef readonly ScratchStack scratches
    cdef readonly BufferPool pool

    cpdef list allocate(self, list sizes)
