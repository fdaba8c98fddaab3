# never compiled
cdef enum:
    WAITING = 0
    OPEN = 1
    DRAINING = 2
    CLOSED = 3
