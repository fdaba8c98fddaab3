import cython

from rpcproto.serialization cimport _layout as layout
from rpcproto.serialization cimport flood, prescan
from rpcproto.serialization._reader cimport Reader
from rpcproto.serialization._writer cimport Writer
from rpcproto.serialization.codec cimport Codec

cdef class MsgpackCodec(Codec):
    cdef readonly Py_ssize_t max_object_bytes
    cdef Py_ssize_t unchecked_size
    cdef list packs

    @cython.locals(body=bytes)
    cpdef object encode_args(self, tuple args, list buffers)
    @cython.locals(body=bytes)
    cpdef object encode_value(self, object value, list buffers)
    cpdef object decode_args(self, object body, list buffers)
    @cython.locals(found=int)
    cpdef object decode_value(self, object body, list buffers)
    cpdef bytes _pack(self, object value)
    @cython.locals(writer=Writer, body=bytes)
    cdef bytes _encode(self, object value, list buffers, str root)
    cdef bytes _within_budget(self, bytes body, str root)
    cdef object _decode(self, object body, list buffers, int found)

cdef bint _is_plain(object value, int depth) except -1
cdef bint _are_plain(object values, int depth) except -1
@cython.locals(text=bint)
cdef bint _is_plain_dict(dict value, int depth) except -1
