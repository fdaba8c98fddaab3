import cython

cdef class ReceiveWindow:
    cdef readonly object name
    cdef readonly long long size
    cdef readonly long long limit
    cdef readonly long long largest
    cdef readonly long long left
    cdef readonly long long owed
    cdef readonly long long arrived
    cdef readonly int probing
    cdef int rest
    cdef readonly int credit_class
    cdef readonly unsigned long long call_id

    cpdef object take(self, long long cost)
    @cython.locals(left="long long", owed="long long")
    cpdef long long pass_through(self, long long cost) except -1
    cpdef long long give_back(self, long long cost) except -1
    cpdef bint start_probe(self)
    cpdef long long on_answer(self) except? -1


cdef class ItemWindow(ReceiveWindow):
    cpdef object take(self, long long cost)
    cpdef long long give_back(self, long long cost) except -1
