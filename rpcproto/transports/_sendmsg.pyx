"""One system call for many buffers: the sending end of a connection's queue.

The compiled form; ``_sendmsg.py`` describes the function. Two things it does that Python cannot:

- A small send keeps the GIL: giving it up costs a wait to get it back, and with a busy thread beside the loop that is
  a switch interval of 5 ms for each message. A large one gives it up, so that other threads run while it copies.
- ``bytes`` are passed on by their address: the list holds them, and must not change during the call. Other buffers are
  exported for the length of the call, which keeps their owner from resizing them, and released on every way out.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stddef cimport size_t
from libc.string cimport memset, strerror

from rpcproto.errors import InternalError

__all__ = ["MAX_BYTES", "MAX_PARTS", "send_parts"]

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    """
    #ifndef MSG_NOSIGNAL  /* not everywhere; Python ignores the signal anyway, unless told otherwise */
    #define MSG_NOSIGNAL 0
    #endif
    """
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL
    Py_ssize_t sendmsg(int fd, const msghdr *message, int flags)

globals().update(MAX_PARTS=MAX_PARTS, MAX_BYTES=MAX_BYTES)  # the C numbers, for Python


cpdef Py_ssize_t send_parts(int fd, list parts, Py_ssize_t first, Py_ssize_t offset) except -2:
    """Send ``parts[first:]``, without the first ``offset`` bytes of ``parts[first]``. See ``_sendmsg.py``."""
    cdef iovec vector[MAX_PARTS]
    cdef Py_buffer *views = NULL
    cdef Py_ssize_t exported = 0, count = 0, total = 0, size
    cdef Py_ssize_t left = PyList_GET_SIZE(parts) - first
    cdef char *start
    cdef object part
    if first < 0 or left <= 0:
        return 0
    if left > MAX_PARTS:
        left = MAX_PARTS
    try:
        while count < left and total < MAX_BYTES:
            part = parts[first + count]
            if PyBytes_CheckExact(part):
                start = PyBytes_AS_STRING(part)
                size = PyBytes_GET_SIZE(part)
            else:
                if views is NULL:
                    views = <Py_buffer *>PyMem_Malloc(<size_t>(left - count) * sizeof(Py_buffer))
                    if views is NULL:
                        raise MemoryError()
                PyObject_GetBuffer(part, &views[exported], PyBUF_SIMPLE)
                start = <char *>views[exported].buf
                size = views[exported].len
                exported += 1
            if offset:
                if not 0 <= offset <= size:
                    raise InternalError(f"cannot skip {offset} bytes of a part of {size}")
                start += offset
                size -= offset
                offset = 0
            if size > MAX_BYTES - total:
                size = MAX_BYTES - total
            vector[count].iov_base = start
            vector[count].iov_len = <size_t>size
            total += size
            count += 1
        if not total:
            return 0
        return _send(fd, vector, <size_t>count, total)
    finally:
        while exported:
            exported -= 1
            PyBuffer_Release(&views[exported])
        PyMem_Free(views)


cdef Py_ssize_t _send(int fd, iovec *vector, size_t count, Py_ssize_t total) except -2:
    """The system call, again while a signal interrupts it."""
    cdef msghdr message
    cdef Py_ssize_t sent
    cdef int error
    memset(&message, 0, sizeof(message))
    message.msg_iov = vector
    message.msg_iovlen = count
    while True:
        if total > KEEP_GIL:
            with nogil:
                sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                error = errno
        else:
            sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            error = errno
        if sent >= 0:
            return sent
        if error == EAGAIN:
            return 0
        if error != EINTR:
            raise OSError(error, strerror(error).decode("utf-8", "replace"))
        PyErr_CheckSignals()
