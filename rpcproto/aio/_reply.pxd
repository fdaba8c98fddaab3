# never compiled
# C bodies of _reply.py.
from cpython.contextvars cimport PyContext_Enter, PyContext_Exit


cdef inline int set_defaults(object reply) except -1:
    return 0  # Cython's __new__ has set the fields to None and 0 already; doing it again costs 30 ns a call


cdef inline int run_in(object context, object callback, object argument) except -1:
    PyContext_Enter(context)
    try:
        callback(argument)
    finally:
        PyContext_Exit(context)
    return 0
