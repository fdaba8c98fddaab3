# never compiled
# The C body of _thread.py.
from cpython.pythread cimport PyThread_get_thread_ident


cdef inline unsigned long ident() noexcept:
    return PyThread_get_thread_ident()
