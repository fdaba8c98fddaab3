import cython

from rpcproto.aio.reply cimport Reply, WakeList, new_reply
from rpcproto.connection.calls cimport Flow, RunningCall
from rpcproto.connection.connection cimport Connection
from rpcproto.serialization.codec cimport Codec
from rpcproto.wire cimport _tuning as tuning

cdef class Items(Flow):
    cdef object session
    cdef WakeList wakes
    cdef readonly Connection connection
    cdef readonly Codec codec
    cdef list values
    cdef list costs
    cdef list batch
    cdef Py_ssize_t lent
    cdef Reply waiter
    cdef object consumer
    cdef object on_end
    cdef readonly object error
    cdef public bint fresh
    cdef public RunningCall running
    cdef readonly Reply last
    cdef list spare

    cdef int add(self, object value, Py_ssize_t cost) except -1
    @cython.locals(count=Py_ssize_t, index=Py_ssize_t, cost=Py_ssize_t, most=Py_ssize_t)
    cpdef list take(self)
    cpdef Reply wait(self)
    cpdef object deliver(self)
    @cython.locals(cost=Py_ssize_t)
    cpdef object consume(self, object consumer, object on_end)
    cpdef bint consumed(self) except -1
    cpdef object loop(self)
    cdef object consumer_failed(self, object error)
    cdef object tell_end(self)
    @cython.locals(buffers=list, size=Py_ssize_t, handle=Reply)
    cpdef Reply send(self, object value)
    cpdef bint send_from(self, object values, Py_ssize_t most) except -1
    @cython.locals(last=Reply, handle=Reply)
    cpdef Reply flushed(self)
    cpdef object end(self, bint leave)
    cpdef object leave(self, RunningCall running)
    cpdef object abandon(self)
    @cython.locals(was_over=bint)
    cpdef object cancel(self)
    cpdef object finish(self, object error)
