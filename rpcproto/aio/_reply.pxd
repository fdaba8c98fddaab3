# never compiled
# C bodies of _reply.py.
from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from libc.string cimport strcmp

cdef extern from "Python.h":
    struct PyMethodDef:
        const char *ml_name
    ctypedef struct PyCFunctionObject:
        PyMethodDef *m_ml
    bint PyCFunction_CheckExact(object)


cdef inline int set_defaults(object reply) except -1:
    return 0  # Cython's __new__ has set the fields to None and 0 already; doing it again costs 30 ns a call


cdef inline int run_in(object context, object callback, object argument) except -1:
    PyContext_Enter(context)
    try:
        callback(argument)
    finally:
        PyContext_Exit(context)
    return 0


cdef inline bint is_task_wakeup(object callback) noexcept:
    return PyCFunction_CheckExact(callback) and strcmp((<PyCFunctionObject *>callback).m_ml.ml_name, "task_wakeup") == 0
