# never compiled
# C bodies of _bytes.py. All loads and stores are little-endian by memcpy, so unaligned addresses are fine.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM
from cpython.ref cimport PyObject
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <Python.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define RPC_LE16(x) __builtin_bswap16(x)
    #define RPC_LE32(x) __builtin_bswap32(x)
    #define RPC_LE64(x) __builtin_bswap64(x)
    #else
    #define RPC_LE16(x) (x)
    #define RPC_LE32(x) (x)
    #define RPC_LE64(x) (x)
    #endif
    /* A free-threaded build splits the count between threads, so an object is never known to be idle there. */
    #ifdef Py_GIL_DISABLED
    #define RPC_REFERENCES(o) ((Py_ssize_t)1000)
    #else
    #define RPC_REFERENCES(o) ((Py_ssize_t)Py_REFCNT(o))
    #endif
    """
    uint16_t RPC_LE16(uint16_t) noexcept nogil
    uint32_t RPC_LE32(uint32_t) noexcept nogil
    uint64_t RPC_LE64(uint64_t) noexcept nogil
    Py_ssize_t RPC_REFERENCES(PyObject *) noexcept


cdef inline unsigned int u16(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, data + at, 2)
    return RPC_LE16(value)


cdef inline uint32_t u32(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, data + at, 4)
    return RPC_LE32(value)


cdef inline uint64_t u64(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, data + at, 8)
    return RPC_LE64(value)


cdef inline void put16(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil:
    cdef uint16_t stored = RPC_LE16(<uint16_t>value)
    memcpy(data + at, &stored, 2)


cdef inline void put32(unsigned char *data, Py_ssize_t at, uint32_t value) noexcept nogil:
    cdef uint32_t stored = RPC_LE32(value)
    memcpy(data + at, &stored, 4)


cdef inline void put64(unsigned char *data, Py_ssize_t at, uint64_t value) noexcept nogil:
    cdef uint64_t stored = RPC_LE64(value)
    memcpy(data + at, &stored, 8)


cdef inline void put_header(
    unsigned char *data, Py_ssize_t at, uint32_t length, int kind, int flags, int aux, uint64_t call_id
) noexcept nogil:
    put32(data, at, length)
    data[at + 4] = <unsigned char>kind
    data[at + 5] = <unsigned char>flags
    put16(data, at + 6, <unsigned int>aux)
    put64(data, at + 8, call_id)


cdef inline void put_opening(
    unsigned char *data, Py_ssize_t at, uint32_t length, int kind, int flags, int aux, uint64_t call_id, int method,
    int parts, long long deadline
) noexcept nogil:
    put_header(data, at, length, kind, flags, aux, call_id)
    put32(data, at + 16, <uint32_t>method | <uint32_t>parts << 16)
    put32(data, at + 20, <uint32_t>deadline)


cdef inline (uint32_t, int, int, int, uint64_t) get_header(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return (u32(data, at), data[at + 4], data[at + 5], <int>u16(data, at + 6), u64(data, at + 8))


cdef inline (int, int) get_head(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return (<int>u16(data, at), data[at + 2])


cdef inline bytes copy_out(const unsigned char *data, Py_ssize_t start, Py_ssize_t stop):
    return PyBytes_FromStringAndSize(<const char *>data + start, stop - start)


cdef inline void copy_bytes(unsigned char *data, Py_ssize_t at, bytes source, Py_ssize_t size) noexcept:
    memcpy(data + at, PyBytes_AS_STRING(source), size)


cdef inline int copy_view(unsigned char *data, Py_ssize_t at, object source, Py_ssize_t size) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    if view.len != size:
        PyBuffer_Release(&view)
        raise ValueError("the buffer changed its size while it was copied")
    memcpy(data + at, view.buf, size)
    PyBuffer_Release(&view)
    return 0


cdef inline bytearray uninitialised(Py_ssize_t size):
    cdef bytearray memory = bytearray()
    PyByteArray_Resize(memory, size)  # PyByteArray_FromStringAndSize(NULL, ...) prints an error of its own when it fails
    return memory


cdef inline Py_ssize_t misalignment(bytearray memory, Py_ssize_t alignment) noexcept:
    return <Py_ssize_t>(<uintptr_t>PyByteArray_AS_STRING(memory) % <uintptr_t>alignment)


cdef inline bint idle(list held, Py_ssize_t index):
    return RPC_REFERENCES(<PyObject *>PyList_GET_ITEM(held, index)) == 1
