"""Memory that all connections of one loop share: receive arena, encoder scratch, large receive buffers.

Sharing is what makes an idle connection cheap: it owns no buffer at all. It is safe because a loop calls
``get_buffer``, reads and calls ``buffer_updated`` without a break between them, and because an encoder gives its
scratch back at every flush. What could interleave all the same (a nested loop run by a handler) gets a spare arena.
"""

from __future__ import annotations

from rpcproto.wire import _bytes
from rpcproto.wire import _tuning as tuning


class ReceiveArena:
    """The bytes that reads of one loop land in.

    ``memory[:HEADROOM]`` takes a left-over, ``memory[HEADROOM:]`` is the read area. The views pin the bytearray, so
    its address never changes.
    """

    __slots__ = ("large", "leased", "memory", "normal", "small")

    def __init__(self) -> None:
        self.memory = _bytes.uninitialised(tuning.HEADROOM + tuning.READ_LARGE)
        view = memoryview(self.memory)
        self.small = view[tuning.HEADROOM : tuning.HEADROOM + tuning.READ_SMALL]
        self.normal = view[tuning.HEADROOM : tuning.HEADROOM + tuning.READ_NORMAL]
        self.large = view[tuning.HEADROOM :]
        self.leased = False


class ScratchStack:
    """Scratch bytearrays for encoders, lent from first frame to flush."""

    __slots__ = ("free", "top")

    def __init__(self) -> None:
        # The first one is kept apart from the others: a list that goes from 0 to 1 and back costs an allocation.
        self.top: bytearray | None = None
        self.free: list[bytearray] = []

    def borrow(self) -> bytearray:
        """A bytearray of SCRATCH_SIZE bytes with any content."""
        top = self.top
        if top is not None:
            self.top = None
            return top
        if self.free:
            return self.free.pop()
        return _bytes.uninitialised(tuning.SCRATCH_SIZE)

    def give_back(self, scratch: bytearray) -> None:
        """Return what was borrowed."""
        if self.top is None:
            self.top = scratch
        elif len(self.free) < tuning.SCRATCHES_KEPT:
            self.free.append(scratch)


class BufferPool:
    """Writable buffers for received data, 64-byte aligned, used again once nobody holds a view of them.

    Fresh memory from the kernel costs more than the copy into it: recycling is worth a third of the throughput of
    1 MB messages. A buffer is known to be idle by its reference count, so a user may keep a view for ever; it is then
    simply not used again. At most 64 buffers and 64 MiB are kept.
    """

    __slots__ = ("held", "held_bytes", "next")

    def __init__(self) -> None:
        self.held: list[bytearray] = []
        self.held_bytes = 0
        self.next = 0

    def allocate(self, size: int) -> memoryview:
        """A writable view of ``size`` bytes with any content, whose address is a multiple of 64."""
        if size < tuning.POOLED_MIN:
            return self._view(_bytes.uninitialised(size + tuning.ALIGNMENT), size)
        need = size + tuning.ALIGNMENT
        count = len(self.held)
        at = self.next
        for _ in range(count):
            if at >= count:
                at = 0
            have = len(self.held[at])
            if need <= have <= 2 * need and _bytes.idle(self.held, at):
                self.next = at + 1
                return self._view(self.held[at], size)
            at += 1
        memory = _bytes.uninitialised(need)
        self._keep(memory)
        return self._view(memory, size)

    def _keep(self, memory: bytearray) -> None:
        size = len(memory)
        if size > tuning.POOL_BYTES // 4:
            return
        at = 0
        while at < len(self.held) and (
            len(self.held) >= tuning.POOL_ENTRIES or self.held_bytes + size > tuning.POOL_BYTES
        ):
            if _bytes.idle(self.held, at):
                self.held_bytes -= len(self.held.pop(at))
            else:
                at += 1
        if len(self.held) < tuning.POOL_ENTRIES and self.held_bytes + size <= tuning.POOL_BYTES:
            self.held.append(memory)
            self.held_bytes += size

    def _view(self, memory: bytearray, size: int) -> memoryview:
        start = _bytes.misalignment(memory, tuning.ALIGNMENT)
        if start:
            start = tuning.ALIGNMENT - start
        return memoryview(memory)[start : start + size]


class LoopMemory:
    """The shared memory of one loop. One per loop; every connection of the loop is given it."""

    __slots__ = ("arena", "pool", "scratches")

    def __init__(self) -> None:
        self.arena = ReceiveArena()
        self.scratches = ScratchStack()
        self.pool = BufferPool()

    def allocate(self, sizes: list[int]) -> list[memoryview]:
        """The default ``allocate`` hook: one separate, aligned, recycled buffer a size."""
        return [self.pool.allocate(size) for size in sizes]
