# The C types of reply.py.
cimport cython
from libc.stdint cimport uint64_t

from rpcproto.aio cimport _reply
from rpcproto.connection.calls cimport PendingCall


@cython.final
cdef class WakeList:
    cdef readonly object loop
    cdef readonly object done
    cdef list ready
    cdef int held
    cdef bint scheduled
    cdef bint sweeping

    cdef int add(self, Reply reply) except -1
    cpdef object hold(self)
    cpdef object release(self)
    cpdef object wake_now(self)
    cdef int schedule(self) except -1
    @cython.locals(ready=list, reply=Reply)
    cdef int sweep(self) except -1


@cython.final
cdef class Reply(PendingCall):
    cdef WakeList wakes
    cdef bint pending
    cdef bint was_cancelled
    cdef public bint _asyncio_future_blocking
    cdef object value
    cdef object error
    cdef object error_traceback
    cdef object callback
    cdef object callback_context
    cdef object further
    cdef public object given_metadata
    cdef readonly object owner

    cpdef bint settle(self, object value) except -1
    cpdef bint settle_error(self, object error) except -1
    cdef int finish(self) except -1
    cdef int run_callbacks(self) except -1
    cdef object report(self, object callback, object error)
    cdef object failure(self)


@cython.locals(reply=Reply)
cpdef Reply new_reply(WakeList wakes, object owner, uint64_t call_id)
