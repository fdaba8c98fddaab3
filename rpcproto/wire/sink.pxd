from libc.stdint cimport uint64_t

cdef class FrameSink:
    cpdef int on_greeting(self, object greeting) except -1
    cpdef int on_open(self, int kind, uint64_t call_id, int codec, int method, object name, long long deadline_ms,
                      object metadata, object body, object buffers, Py_ssize_t size) except -1
    cpdef int on_reply(self, uint64_t call_id, int codec, object metadata, object body, object buffers,
                       Py_ssize_t size) except -1
    cpdef int on_item(self, uint64_t call_id, int codec, int flags, object metadata, object body, object buffers,
                      Py_ssize_t size) except -1
    cpdef int on_error(self, uint64_t call_id, int code, bytes payload) except -1
    cpdef int on_cancel(self, uint64_t call_id, int code) except -1
    cpdef int on_credit(self, uint64_t call_id, int aux, uint64_t amount) except -1
    cpdef int on_ping(self, int aux, bytes payload) except -1
    cpdef int on_goaway(self, int code, uint64_t last_call_id, object text) except -1
    cpdef int on_auth(self, int step, bytes payload) except -1
    cpdef int on_large(self, object assembly) except -1
    cpdef int on_stray(self, int kind, uint64_t call_id) except -1
    cpdef int on_allocate(self, object assembly) except -1
    cpdef int on_read_done(self) except -1
    cpdef int on_backlog(self) except -1
    cpdef int on_breach(self, object error) except -1
