"""A peer that writes what it likes, as fast as the system takes it, from a thread of its own."""

from __future__ import annotations

import selectors
import socket

from rpcproto.wire.spec import FrameType
from tests.wire import frames

PATIENCE = 20.0
"""Seconds without any progress after which a flood is given up: a guard against hanging, nothing else."""


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE)


def flood(address: str, data: bytes) -> list[frames.Frame]:
    """Send all of ``data`` while reading, or as much as the server takes. Returns the frames that came back.

    A server that has ended the connection discards only so much; who sends more may not get all of its last words.
    """
    got = bytearray()
    view = memoryview(data)
    with connect(address) as sock, selectors.DefaultSelector() as selector:
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while True:
            ready = selector.select(PATIENCE)
            assert ready, "the server neither reads nor writes nor closes"
            events = ready[0][1]
            if events & selectors.EVENT_READ:
                try:
                    piece = sock.recv(1 << 20)
                except ConnectionError:
                    break
                if not piece and not view:
                    break
                if not piece:
                    selector.modify(sock, selectors.EVENT_WRITE)  # it said its last; go on until it closes
                got += piece
            if events & selectors.EVENT_WRITE:
                try:
                    view = view[sock.send(view[: 1 << 20]) :]
                except ConnectionError:
                    view = view[:0]  # it closed; what it had said before is still there to be read
                if not view:
                    selector.modify(sock, selectors.EVENT_READ)
    at = 64
    while at + 16 <= len(got) and (end := at + 16 + frames.HEADER.unpack_from(got, at)[0]) <= len(got):
        at = end
    return frames.split(bytes(got[64:at]))


def goaway(found: list[frames.Frame]) -> tuple[int, str]:
    """Code and text of the one GOAWAY, which is the last frame."""
    assert [frame.kind for frame in found].count(FrameType.GOAWAY) == 1
    assert found[-1].kind == FrameType.GOAWAY, found[-3:]
    return found[-1].aux, found[-1].payload[8:].decode()
