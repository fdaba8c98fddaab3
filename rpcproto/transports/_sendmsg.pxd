# One system call for many buffers. What it does and returns: _sendmsg.py.
cdef enum:
    MAX_PARTS = 1024
    MAX_BYTES = 4194304
    KEEP_GIL = 131072

cpdef Py_ssize_t send_parts(int fd, list parts, Py_ssize_t first, Py_ssize_t offset) except -2
