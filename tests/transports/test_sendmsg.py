from __future__ import annotations

import array
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import rpcproto
from rpcproto import _build
from rpcproto.errors import InternalError
from rpcproto.transports._sendmsg import MAX_BYTES, MAX_PARTS, send_parts

KINDS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "slice": lambda data: memoryview(b"<" + data + b">")[1:-1],
    "array": lambda data: array.array("B", data),
}


@pytest.fixture(params=["unix", "tcp"])
def pair(request):
    """Two connected sockets, the first as a loop has it."""
    if request.param == "unix":
        one, other = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            one = socket.create_connection(server.getsockname())
            other, _ = server.accept()
    one.setblocking(False)
    with one, other:
        yield one, other


def receive(sock, size):
    data = bytearray()
    while len(data) < size:
        more = sock.recv(size - len(data))
        assert more, "the connection ended early"
        data += more
    return bytes(data)


def fill(sock):
    """Write until nothing more fits; returns how much."""
    total = 0
    while sent := send_parts(sock.fileno(), [bytes(65536)], 0, 0):
        total += sent
    while sent := send_parts(sock.fileno(), [b"x"], 0, 0):
        total += sent
    return total


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025, 5000])
def test_many_parts(pair, count):
    one, other = pair
    parts = [b"%d," % number for number in range(count)]
    sent = first = 0
    calls = 0
    while first < count:
        sent = send_parts(one.fileno(), parts, first, 0)
        expected = parts[first : first + MAX_PARTS]
        assert receive(other, sent) == b"".join(expected)  # far below what the buffer holds: whole parts
        first += len(expected)
        calls += 1
    assert calls == -(-count // 1024)
    assert send_parts(one.fileno(), parts, count, 0) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_buffers(pair, kind):
    one, other = pair
    parts = [b"head", KINDS[kind](b"first"), b"", KINDS[kind](b""), KINDS[kind](b"second"), b"tail"]
    assert send_parts(one.fileno(), parts, 0, 0) == 19
    assert receive(other, 19) == b"headfirstsecondtail"


def test_a_view_of_other_items_is_sent_as_its_bytes(pair):
    one, other = pair
    numbers = array.array("d", [1.5, 2.5])
    parts = [numbers, memoryview(numbers), memoryview(bytes(range(6))).cast("B", (2, 3))]
    assert send_parts(one.fileno(), parts, 0, 0) == 38
    assert receive(other, 38) == numbers.tobytes() * 2 + bytes(range(6))
    assert send_parts(one.fileno(), parts, 1, 3) == 19
    assert receive(other, 19) == numbers.tobytes()[3:] + bytes(range(6))
    assert send_parts(one.fileno(), parts, 2, 4) == 2
    assert receive(other, 2) == bytes([4, 5])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", range(6))
def test_an_offset_skips_bytes_of_the_first_part(pair, kind, offset):
    one, other = pair
    parts = [b"never", KINDS[kind](b"01234"), b"56"]
    assert send_parts(one.fileno(), parts, 1, offset) == 7 - offset
    assert receive(other, 7 - offset) == b"0123456"[offset:]


@pytest.mark.parametrize("offset", [-1, 4, 2**40])
def test_an_offset_outside_the_part_is_a_bug(pair, offset):
    one, _ = pair
    with pytest.raises(InternalError, match=f"cannot skip {offset} bytes of a part of 3"):
        send_parts(one.fileno(), [b"abc", b"def"], 0, offset)


def test_nothing_to_send_is_no_system_call():
    assert send_parts(-1, [], 0, 0) == 0
    assert send_parts(-1, [b"x"], 1, 0) == 0
    assert send_parts(-1, [b"x"], 5, 0) == 0
    assert send_parts(-1, [b"", bytearray()], 0, 0) == 0
    assert send_parts(-1, [b"abc"], 0, 3) == 0


def test_a_small_buffer_takes_a_part_of_it(pair):
    one, other = pair
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    parts = [bytes([number % 251]) * 100 for number in range(5000)]
    expected = b"".join(parts)
    position = 0
    received = bytearray()
    while len(received) < len(expected):
        readable, writable, _ = select.select([other], [one] if position < len(expected) else [], [])
        if readable:
            received += other.recv(1 << 20)
        if writable:
            position += send_parts(one.fileno(), parts, position // 100, position % 100)
    assert bytes(received) == expected


def test_a_full_buffer_takes_nothing(pair):
    one, other = pair
    filled = fill(one)
    assert send_parts(one.fileno(), [b"x", bytearray(b"y")], 0, 0) == 0
    assert send_parts(one.fileno(), [bytes(1 << 20)], 0, 0) == 0  # without the GIL
    receive(other, filled)
    assert send_parts(one.fileno(), [b"again"], 0, 0) == 5


def test_one_call_offers_a_bounded_number_of_bytes(pair):
    one, other = pair
    for sock in pair:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 20)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    big = bytes(MAX_BYTES + 1000)
    sizes = []

    def drain():
        while data := other.recv(1 << 20):
            sizes.append(len(data))

    reader = threading.Thread(target=drain)
    reader.start()
    for parts in ([big], [b"x", bytearray(big)], [memoryview(big)[: MAX_BYTES // 2]] * 3):
        assert 0 <= send_parts(one.fileno(), parts, 0, 0) <= MAX_BYTES
    one.close()
    reader.join()


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_closed_peer_is_an_error_and_no_signal(pair, size):
    one, other = pair
    other.close()
    with pytest.raises(OSError) as caught:
        for _ in range(100):
            send_parts(one.fileno(), [bytes(size)], 0, 0)
    assert isinstance(caught.value, (BrokenPipeError, ConnectionResetError))
    assert caught.value.strerror == os.strerror(caught.value.errno)


@pytest.mark.skipif(_build.PURE, reason="writev knows no flags; see _sendmsg.py")
def test_a_closed_peer_does_not_kill_a_program_that_wants_sigpipe():
    program = """if True:
        import signal, socket
        from rpcproto.transports._sendmsg import send_parts
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        one, other = socket.socketpair()
        other.close()
        try:
            send_parts(one.fileno(), [b"x"], 0, 0)
        except BrokenPipeError:
            print("alive")
    """
    root = Path(rpcproto.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


@pytest.mark.skipif(_build.PURE, reason="writev has no way not to wait; the loop's descriptors never do")
def test_it_does_not_wait_on_a_blocking_socket(pair):
    one, _ = pair
    fill(one)
    one.setblocking(True)
    assert send_parts(one.fileno(), [b"x"], 0, 0) == 0


def test_a_wrong_descriptor_is_an_error():
    with pytest.raises(OSError, match="Bad file descriptor"):
        send_parts(-1, [b"x"], 0, 0)


@pytest.mark.skipif(_build.PURE, reason="writev writes to anything")
def test_only_sockets_are_written_to(tmp_path):
    with open(tmp_path / "file", "wb") as file, pytest.raises(OSError, match="Socket operation on non-socket"):
        send_parts(file.fileno(), [b"x"], 0, 0)


@pytest.mark.parametrize("bad", ["text", None, 5, memoryview(bytes(10))[::2]])
@pytest.mark.parametrize("offset", [0, 1])
def test_what_has_no_contiguous_buffer_is_refused_and_nothing_sent(pair, bad, offset):
    one, other = pair
    good = bytearray(b"good")
    for parts in ([bad], [b"x", good, bad]):
        with pytest.raises((TypeError, BufferError)):
            send_parts(one.fileno(), parts, 0, offset)
    good.clear()  # released: an exported bytearray could not be resized
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.recv(1)


def test_buffers_are_released_on_every_way_out(pair):
    one, other = pair
    parts = [bytearray(b"x" * 10) for _ in range(1500)]
    assert send_parts(one.fileno(), parts, 0, 0) == 10240
    for part in parts:
        part.clear()
    parts = [bytearray(10), bytearray(10)]
    other.close()
    with pytest.raises(OSError):
        for _ in range(100):
            send_parts(one.fileno(), parts, 0, 0)
    with pytest.raises(InternalError):
        send_parts(one.fileno(), parts, 0, 11)
    for part in parts:
        part.clear()


def test_nothing_is_kept(pair):
    class Buffer(bytearray):
        pass

    one, _ = pair
    part = Buffer(b"x")
    gone = weakref.ref(part)
    send_parts(one.fileno(), [part, part], 0, 0)
    send_parts(one.fileno(), [part], 0, 1)
    del part
    gc.collect()
    assert gone() is None


def test_parts_must_be_in_a_list():
    if _build.PURE:
        pytest.skip("not checked without compiled types")
    with pytest.raises(TypeError, match="Argument 'parts' has incorrect type"):
        send_parts(-1, (b"x",), 0, 0)


def test_signals_do_not_disturb(pair):
    """A signal that arrives during the call is handled, and the bytes are sent once."""
    one, other = pair
    handled = []
    before = signal.signal(signal.SIGALRM, lambda *arguments: handled.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        total = 0
        while len(handled) < 3:
            sent = send_parts(one.fileno(), [b"0123456789"], 0, 0)
            assert sent in (0, 10)
            assert receive(other, sent) == b"0123456789"[:sent]
            total += sent
        assert total % 10 == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
