import cython
from libc.stdint cimport uint64_t

from rpcproto.wire cimport _bytes, spec
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire.memory cimport ScratchStack

cdef class Encoder:
    cdef ScratchStack scratches
    cdef bytearray scratch
    cdef unsigned char *data
    cdef Py_ssize_t used
    cdef list parts
    cdef readonly Py_ssize_t size

    cpdef object frame(self, int kind, int flags, int aux, uint64_t call_id, bytes payload)
    @cython.locals(missing=Py_ssize_t)
    cpdef object pad(self, Py_ssize_t offset)
    cpdef object number(self, int kind, int aux, uint64_t call_id, uint64_t value)
    @cython.locals(head=Py_ssize_t, parts=int, at=Py_ssize_t)
    cpdef object opening(self, int kind, int flags, int codec, uint64_t call_id, int method, long long deadline_ms,
                         object body, Py_ssize_t size)
    cpdef object whole(self, int kind, int flags, int codec, uint64_t call_id, object body, Py_ssize_t size)
    @cython.locals(length=Py_ssize_t)
    cpdef object start(self, int kind, int flags, int codec, uint64_t call_id, bytes head, Py_ssize_t size)
    cpdef object append(self, object payload, Py_ssize_t size)
    cpdef list take(self)
    @cython.locals(scratch=bytearray)
    cdef object _room(self, Py_ssize_t size)
    cdef object _payload(self, object payload, Py_ssize_t size)
    cdef object _seal(self)
    cdef object _add(self, object part)
