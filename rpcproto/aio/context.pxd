cdef class CallContext:
    cdef readonly object peer
    cdef readonly object method
    cdef readonly double deadline
    cdef public object reply_metadata
    cdef public bint over
    cdef object _raw
    cdef object _decoded

    cpdef object encode_reply_metadata(self)
    cpdef double seconds(self, double seconds) except? -1.0
    cpdef object passed_on(self, object metadata)

cdef class Current:
    cdef object __weakref__
    cdef public object peer
    cdef public object method
    cdef public object metadata
    cdef public double deadline
    cdef public CallContext call
    cdef public bint nests

    cpdef CallContext context(self)
    cpdef object leave(self)
