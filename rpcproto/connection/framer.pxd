import cython

from rpcproto.connection.calls cimport OutMessage
from rpcproto.connection.handler cimport CallHandler
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire cimport spec
from rpcproto.wire.encoder cimport Encoder
from rpcproto.wire.memory cimport ScratchStack

cdef class Framer:
    cdef CallHandler handler
    cdef readonly Encoder small
    cdef readonly dict method_ids
    cdef readonly Py_ssize_t max_frame
    cdef readonly Py_ssize_t taken

    @cython.locals(head=bytes, flags=int, left=Py_ssize_t, size=Py_ssize_t, pieces=list)
    cdef object write_frame(self, OutMessage message, Py_ssize_t most)
    @cython.locals(size=Py_ssize_t)
    cdef object _align(self, list pieces, Py_ssize_t offset)
    cdef bytes _head(self, OutMessage message)
