from libc.stdint cimport uint64_t

cdef class CallHandler:
    cpdef double now(self) except? -1.0
    cpdef object resolve(self, object name)
    cpdef int on_open(self) except -1
    cpdef int on_call(self, object entry, int kind, uint64_t call_id, int codec, long long deadline_ms,
                      object metadata, object body, object buffers, Py_ssize_t size) except -1
    cpdef int on_cancel(self, object running, int code) except -1
    cpdef int on_reply(self, object call, int codec, object metadata, object body, object buffers) except -1
    cpdef int on_failure(self, object call, object error) except -1
    cpdef int on_item(self, object flow, int codec, object metadata, object body, object buffers,
                      Py_ssize_t cost) except -1
    cpdef int on_items_end(self, object flow) except -1
    cpdef int on_flow_over(self, object flow) except -1
    cpdef int on_written(self, object handle) except -1
    cpdef int on_pong(self, object waiter) except -1
    cpdef object allocate(self, list sizes)
    cpdef int on_output(self, bint at_once) except -1
    cpdef int on_read_done(self) except -1
    cpdef int on_backlog(self) except -1
    cpdef int on_pause(self, bint paused) except -1
    cpdef int on_deadline(self, double when) except -1
    cpdef int on_drain(self) except -1
    cpdef int on_end(self, object error) except -1
