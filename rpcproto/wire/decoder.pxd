import cython
from libc.stdint cimport uint32_t, uint64_t

from rpcproto.wire cimport _bytes, spec
from rpcproto.wire cimport _tuning as tuning
from rpcproto.wire.assembly cimport Assembly
from rpcproto.wire.head cimport Head
from rpcproto.wire.memory cimport LoopMemory, ReceiveArena
from rpcproto.wire.sink cimport FrameSink

cdef class Decoder:
    cdef FrameSink sink
    cdef LoopMemory memory
    cdef int role
    cdef readonly uint32_t max_frame
    cdef int quantum
    cdef readonly int state
    cdef readonly bint paused
    cdef readonly bytes greeting
    cdef readonly dict assemblies
    cdef Assembly current
    cdef Py_ssize_t left
    cdef bint more
    cdef bint direct
    cdef bytearray tail
    cdef Py_ssize_t need
    cdef ReceiveArena reading
    cdef Py_ssize_t offered
    cdef int read_view
    cdef Head head
    cdef readonly uint64_t frames
    cdef readonly uint64_t messages
    cdef readonly uint64_t reads
    cdef readonly uint64_t bytes_received

    cpdef object get_buffer(self, Py_ssize_t sizehint)
    cpdef object buffer_updated(self, Py_ssize_t nbytes)
    cpdef object resume(self)
    cpdef object pause(self)
    cpdef object guard(self, bint on)
    cpdef object stop(self)
    cpdef object forget(self, uint64_t call_id)
    cpdef bint incomplete(self)
    cdef object _stop(self, object error)
    cdef object _received_direct(self, Py_ssize_t nbytes)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, size=Py_ssize_t, arena=ReceiveArena, tail=bytearray)
    cdef object _received(self, Py_ssize_t nbytes)
    @cython.locals(done=Py_ssize_t)
    cdef object _run(self, bytearray data, Py_ssize_t start, Py_ssize_t stop)
    cdef Py_ssize_t _early(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef Py_ssize_t _greeting(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, length=uint32_t, kind=int, aux=int, call_id=uint64_t)
    cdef Py_ssize_t _authenticating(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(at=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, quota=int, length=uint32_t, kind=int, flags=int,
                   aux=int, call_id=uint64_t)
    cdef Py_ssize_t _parse(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(size=Py_ssize_t, body=bytes, head=Head)
    cdef object _whole(self, const unsigned char *data, Py_ssize_t begin, Py_ssize_t end, int kind, int flags,
                       int codec, uint64_t call_id)
    cdef object _whole_with_buffers(self, const unsigned char *data, Py_ssize_t begin, Py_ssize_t end, int kind,
                                    int flags, int codec, uint64_t call_id)
    @cython.locals(head=Head)
    cdef Assembly _assembly(self, int kind, uint64_t call_id, int codec, int flags)
    @cython.locals(used=Py_ssize_t, head=Head, more=bint, message=Assembly, found=Assembly)
    cdef Py_ssize_t _fragment(self, const unsigned char *data, Py_ssize_t begin, Py_ssize_t stop, Py_ssize_t end,
                              int kind, int flags, int codec, uint64_t call_id) except -1
    @cython.locals(size=Py_ssize_t, current=Assembly)
    cdef Py_ssize_t _fill(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef object _frame_done(self, Assembly message)
    cdef object _deliver(self, Assembly message)
    @cython.locals(length=Py_ssize_t)
    cdef object _control(self, const unsigned char *data, Py_ssize_t begin, Py_ssize_t end, int kind, int aux,
                         uint64_t call_id)
    cdef object _wrong_call_id(self, int kind, uint64_t call_id)
    cdef object _wrong_size(self, int kind, Py_ssize_t length)
    cdef object _second_first(self, uint64_t call_id)
    cdef object _misfit(self, uint64_t call_id, long long announced, long long present)
