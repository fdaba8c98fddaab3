# cython: language_level=3, boundscheck=False, wraparound=False
"""The featureless prototype: a message layer over one socket and nothing else, as a measure of what features cost.

Same 16-byte header, same receive and send strategy as rpcproto: one flush at the end of each read, ``sendmsg`` of
everything queued straight on the socket, large payloads received in place, futures for replies, plain functions as
handlers. Missing on purpose: methods, codecs, credit, deadlines, cancel, limits, errors, observers, several buffers.

The ``WITH_`` constants add the steady state of one feature each, for ``features.py`` to tell their costs apart: what every
call pays, without what happens when a limit is hit. They are 0 unless the build sets them, and cost nothing then.
"""
import asyncio

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcpy, memmove, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    enum: MSG_NOSIGNAL
    ssize_t sendmsg(int, msghdr *, int)

cdef extern from *:
    """
    #ifndef WITH_METHODS
    #define WITH_METHODS 0   /* the name looked up, its id sent, the handler found by id */
    #endif
    #ifndef WITH_CODECS
    #define WITH_CODECS 0    /* a codec object encodes, its id is sent, another one decodes */
    #endif
    #ifndef WITH_CREDIT
    #define WITH_CREDIT 0    /* taken and given back for every message, returned in one frame for half a window */
    #endif
    #ifndef WITH_DEADLINE
    #define WITH_DEADLINE 0  /* clock read, sent, kept in a record of the call, lower bound for the connection */
    #endif
    #ifndef WITH_LIMITS
    #define WITH_LIMITS 0    /* sizes, running calls and their bytes, queued bytes */
    #endif
    #ifndef WITH_COUNTERS
    #define WITH_COUNTERS 0  /* calls, messages, bytes, reads */
    #endif
    #define HEAD (4 * WITH_METHODS + 4 * WITH_DEADLINE)
    """
    enum: WITH_METHODS, WITH_CODECS, WITH_CREDIT, WITH_DEADLINE, WITH_LIMITS, WITH_COUNTERS
    Py_ssize_t HEAD

ctypedef unsigned short u16
ctypedef unsigned int u32
ctypedef unsigned long long u64

cdef enum:
    HEADER = 16
    REQUEST = 1
    REPLY = 5
    CREDIT = 9
    WINDOW = 8 * 1024 * 1024
    MAX_MESSAGE = 1024 * 1024 * 1024
    MAX_RUNNING = 1024
    MAX_HELD = 64 * 1024 * 1024
    CAPACITY = 256 * 1024   # receive buffer
    DIRECT = 64 * 1024      # payloads from here on are received in place
    PACK_MAX = 1024         # payloads up to here are copied behind their header
    SCRATCH = 64 * 1024     # headers and packed payloads of one flush
    PARTS = 1024            # IOV_MAX
    KEEP_GIL = 64 * 1024    # sends up to here keep the GIL


cdef double now():
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


cdef class Raw:
    """The codec for bytes."""

    cpdef bytes encode(self, object value):
        if not isinstance(value, bytes):
            raise TypeError("not bytes")
        return <bytes>value

    cpdef object decode(self, bytes body):
        return body


cdef class Waiting:
    """A call with a deadline."""
    cdef object future
    cdef double deadline


cdef class Link:
    """Both ends of a connection: calls the handler for requests, settles futures for replies."""
    cdef object loop, transport, handler, view, large, large_view
    cdef dict waiting
    cdef list kept          # payloads that parts point into, until sent
    cdef char *data
    cdef char *scratch
    cdef Py_ssize_t have, large_have, large_size, used, queued
    cdef u64 last_id, large_id, large_head
    cdef int large_type, large_codec, fd, count
    cdef bint reading, scheduled
    cdef iovec parts[PARTS]
    cdef readonly u64 messages_sent, sends
    cdef dict ids           # and the rest: for the WITH_ features
    cdef list handlers, codecs
    cdef Raw codec
    cdef double soonest
    cdef long long credit, owed, running, held
    cdef u64 opened, served, received, bytes_sent, bytes_received, reads

    def __cinit__(self):
        self.data = <char *>PyMem_Malloc(CAPACITY + HEADER)  # a head may be read past the end
        self.scratch = <char *>PyMem_Malloc(SCRATCH + HEADER)
        if not self.data or not self.scratch:
            raise MemoryError()

    def __init__(self, loop, handler=None):
        self.loop, self.handler, self.waiting, self.kept, self.fd = loop, handler, {}, [], -1
        self.view = PyMemoryView_FromMemory(self.data, CAPACITY, PyBUF_WRITE)
        self.codec, self.credit, self.soonest = Raw(), WINDOW, 1e300
        self.ids, self.handlers, self.codecs = {"Echo.echo": 1}, [None, handler], [None, self.codec]

    def __dealloc__(self):
        PyMem_Free(self.data)
        PyMem_Free(self.scratch)

    def attach(self, transport):
        self.transport, self.fd = transport, transport.get_extra_info("socket").fileno()

    def lost(self):
        self.fd = -1
        for future in self.waiting.values():
            future = (<Waiting>future).future if WITH_DEADLINE else future
            if not future.done():
                future.set_exception(ConnectionError("connection lost"))
        self.waiting.clear()

    def request(self, method, payload):
        """Sends a request (the method is ignored); returns a future of the reply."""
        cdef u64 head = 0
        cdef Waiting call
        future = self.loop.create_future()
        self.last_id += 1
        if WITH_CODECS:
            payload = self.codec.encode(payload)
        if WITH_METHODS:
            head = <u32>self.ids[method]
        if WITH_DEADLINE:
            call = Waiting.__new__(Waiting)
            call.future, call.deadline = future, now() + 30.0
            self.soonest = min(self.soonest, call.deadline)
            head |= <u64>30_000 << 32
            self.waiting[self.last_id] = call
        else:
            self.waiting[self.last_id] = future
        if WITH_COUNTERS:
            self.opened += 1
        self.queue(REQUEST, self.last_id, payload, head)
        if not self.reading and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.flush)
        return future

    # -- receiving --

    cpdef get_buffer(self, Py_ssize_t hint):
        if self.large is not None:
            return self.large_view[self.large_have:]
        return self.view[self.have:] if self.have else self.view

    cpdef buffer_updated(self, Py_ssize_t n):
        cdef char *at = self.data
        cdef char *end
        cdef u32 size
        cdef Py_ssize_t head
        self.reading = True
        if WITH_COUNTERS:
            self.reads += 1
            self.bytes_received += n
        if self.large is not None:
            self.large_have += n
            if self.large_have == self.large_size:
                payload, self.large, self.large_view = self.large, None, None
                self.deliver(self.large_type, self.large_codec, self.large_id, self.large_head, payload)
        else:
            end = at + self.have + n
            while end - at >= HEADER:
                size = (<u32 *>at)[0]
                head = HEAD if at[4] == REQUEST else 0
                if end - at < HEADER + <Py_ssize_t>size:
                    if size >= DIRECT and end - at >= HEADER + head:
                        self.start_large(at, head, size - head, end - at - HEADER - head)
                        at = end
                    break
                self.deliver(at[4], (<u16 *>(at + 6))[0], (<u64 *>(at + 8))[0], (<u64 *>(at + HEADER))[0] if HEAD else 0,
                             PyBytes_FromStringAndSize(at + HEADER + head, size - head))
                at += HEADER + size
            self.have = end - at
            if self.have:
                memmove(self.data, at, self.have)
        self.reading = False
        if self.count:
            self.flush()

    cdef start_large(self, char *at, Py_ssize_t head, Py_ssize_t size, Py_ssize_t have):
        self.large = PyBytes_FromStringAndSize(NULL, size)
        self.large_view = PyMemoryView_FromMemory(PyBytes_AS_STRING(self.large), size, PyBUF_WRITE)
        memcpy(PyBytes_AS_STRING(self.large), at + HEADER + head, have)
        self.large_have, self.large_size, self.large_head = have, size, (<u64 *>(at + HEADER))[0] if HEAD else 0
        self.large_type, self.large_codec, self.large_id = at[4], (<u16 *>(at + 6))[0], (<u64 *>(at + 8))[0]

    cdef deliver(self, int kind, int codec, u64 call_id, u64 head, bytes payload):
        cdef Py_ssize_t size = len(payload)
        if WITH_CREDIT:
            if kind == CREDIT:
                self.credit += (<u64 *>PyBytes_AS_STRING(payload))[0]
                return
            self.owed += max(64, size)
            if self.owed >= WINDOW // 2:
                self.queue(CREDIT, 0, PyBytes_FromStringAndSize(<char *>&self.owed, 8), 0)
                self.owed = 0
        if WITH_LIMITS and size > MAX_MESSAGE:
            raise ValueError("message too large")
        if WITH_COUNTERS:
            self.received += 1
        value = (<Raw>self.codecs[codec]).decode(payload) if WITH_CODECS else payload
        if kind == REQUEST:
            self.serve(call_id, head, size, value)
        else:
            future = self.waiting.pop(call_id)
            if WITH_DEADLINE:
                future = (<Waiting>future).future
            if not future.done():
                future.set_result(value)

    cdef serve(self, u64 call_id, u64 head, Py_ssize_t size, value):
        if WITH_LIMITS:
            if self.running >= MAX_RUNNING or (self.running and self.held + size > MAX_HELD):
                raise ValueError("overloaded")
            self.running, self.held = self.running + 1, self.held + size
        if WITH_DEADLINE and head >> 32 == 0:
            raise ValueError("too late")
        handler = self.handlers[<u32>head] if WITH_METHODS else self.handler
        reply = handler(value)
        if WITH_LIMITS:
            self.running, self.held = self.running - 1, self.held - size
        if WITH_COUNTERS:
            self.served += 1
        self.queue(REPLY, call_id, self.codec.encode(reply) if WITH_CODECS else reply, 0)

    # -- sending --

    cdef queue(self, int kind, u64 call_id, bytes payload, u64 head):
        cdef Py_ssize_t head_size = HEAD if kind == REQUEST else 0
        cdef Py_ssize_t size = len(payload), taken = HEADER + head_size + (size if size <= PACK_MAX else 0)
        cdef char *header
        if WITH_LIMITS and (size > MAX_MESSAGE or self.queued + size > MAX_HELD):
            raise ValueError("message too large, or too much queued")
        if WITH_CREDIT and kind != CREDIT:
            if self.credit < max(64, size):
                raise ValueError("out of credit")
            self.credit -= max(64, size)
        if self.count + 2 > PARTS or self.used + taken > SCRATCH:
            self.flush()
        header = self.scratch + self.used
        (<u64 *>header)[0] = <u64>(head_size + size) | <u64>kind << 32 | <u64>WITH_CODECS << 48
        (<u64 *>header)[1] = call_id
        if HEAD:
            (<u64 *>(header + HEADER))[0] = head  # of which head_size bytes stay
        if size <= PACK_MAX:
            memcpy(header + HEADER + head_size, PyBytes_AS_STRING(payload), size)
        if self.count and <char *>self.parts[self.count - 1].iov_base + self.parts[self.count - 1].iov_len == header:
            self.parts[self.count - 1].iov_len += taken
        else:
            self.parts[self.count] = iovec(header, taken)
            self.count += 1
        self.used += taken
        if size > PACK_MAX:
            self.parts[self.count] = iovec(PyBytes_AS_STRING(payload), size)
            self.count += 1
            self.kept.append(payload)
        self.queued += HEADER + head_size + size
        self.messages_sent += 1
        if WITH_COUNTERS:
            self.bytes_sent += HEADER + head_size + size

    cpdef flush(self):
        cdef msghdr message
        cdef ssize_t sent = 0
        cdef int i
        self.scheduled = False
        if self.count and self.fd >= 0:
            if not self.transport.get_write_buffer_size():
                memset(&message, 0, sizeof(message))
                message.msg_iov, message.msg_iovlen = self.parts, self.count
                self.sends += 1
                if self.queued <= KEEP_GIL:
                    sent = sendmsg(self.fd, &message, MSG_NOSIGNAL)
                else:
                    with nogil:
                        sent = sendmsg(self.fd, &message, MSG_NOSIGNAL)
                sent = max(sent, 0)
            if sent < self.queued:
                for i in range(self.count):  # the transport takes the rest, and reports a dead socket
                    if sent < <ssize_t>self.parts[i].iov_len:
                        self.transport.write(PyBytes_FromStringAndSize(
                            <char *>self.parts[i].iov_base + sent, self.parts[i].iov_len - sent))
                        sent = 0
                    else:
                        sent -= self.parts[i].iov_len
        self.count, self.used, self.queued = 0, 0, 0
        if self.kept:
            self.kept.clear()


class LinkProtocol(asyncio.BufferedProtocol):
    """The protocol object: its reading methods are the compiled link's own."""

    def __init__(self, link):
        self.link, self.get_buffer, self.buffer_updated = link, link.get_buffer, link.buffer_updated

    def connection_made(self, transport):
        self.link.attach(transport)

    def connection_lost(self, error):
        self.link.lost()
