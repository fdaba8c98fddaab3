from rpcproto.serialization cimport _layout as layout

cdef class Codec:
    cdef readonly str name
    cdef readonly int id

    cpdef object encode_args(self, tuple args, list buffers)
    cpdef object decode_args(self, object body, list buffers)
    cpdef object encode_value(self, object value, list buffers)
    cpdef object decode_value(self, object body, list buffers)

cdef class RawCodec(Codec):
    cpdef object encode_args(self, tuple args, list buffers)
    cpdef object decode_args(self, object body, list buffers)
    cpdef object encode_value(self, object value, list buffers)
    cpdef object decode_value(self, object body, list buffers)

cpdef object flatten(object value)
