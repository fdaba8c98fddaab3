cdef class Current:
    cdef public object peer
