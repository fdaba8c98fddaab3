import cython

from rpcproto.aio cimport _thread
from rpcproto.aio.context cimport CallContext
from rpcproto.aio.items cimport Items
from rpcproto.aio.serving cimport Serving
from rpcproto.connection.connection cimport Connection
from rpcproto.serialization.codec cimport Codec
from rpcproto.wire cimport spec

cpdef double to_seconds(object timeout) except? -1.0

cdef class Streaming(Serving):
    cdef bint holding
    cdef list fresh
    cdef bint read_over
    cdef unsigned long thread

    @cython.locals(chosen=Codec, buffers=list, size=Py_ssize_t, connection=Connection, items=Items, seconds=double,
                   context=CallContext)
    cdef Items _open_flow(self, int kind, str method, tuple args, object timeout, object codec, object metadata)
    @cython.locals(connection=Connection)
    cdef object move(self)
    @cython.locals(items=Items, chosen=Codec)
    cpdef int on_item(self, object flow, int codec, object metadata, object body, object buffers,
                      Py_ssize_t cost) except -1
    @cython.locals(connection=Connection)
    cdef object finish_flow(self, Items items, object error)
    cdef object _undecodable_item(self, Items items, object error)
    cdef object _fresh(self, Items items)
    @cython.locals(items=Items)
    cdef object deliver_fresh(self)
