"""What a codec is, and the simplest one: raw bytes.

A codec turns the arguments or the result of a call into a small **body** and any number of **buffers**, and back.
The body is copied on its way; buffers are sent from where they lie and received into memory of their own.

Rules for codecs:

1. Encoding appends the buffers to the list given, each flat and contiguous: ``bytes``, or a ``memoryview`` of format
   ``"B"`` and one dimension.
2. A mutable value of up to :data:`SNAPSHOT_MAX` bytes is copied; a larger one is kept by a view, which pins it:
   resizing it raises :exc:`BufferError`, changing it changes what is sent. ``bytes`` are never copied.
3. Decoding gets the body as ``bytes``, or as a writable ``memoryview`` if it is large, and the buffers as writable
   ``memoryview`` objects (``None`` or an empty list if there are none). They belong to the decoded value from then on.
4. What cannot be encoded or decoded raises :class:`~rpcproto.errors.SerializationError`, and nothing else.
5. A codec has no state between calls and may be called while it works: from a finaliser, or from another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcproto.errors import SerializationError
from rpcproto.serialization import _layout as layout

__all__ = ["INLINE_MAX", "SNAPSHOT_MAX", "Codec", "RawCodec", "flatten"]

INLINE_MAX = layout.INLINE_MAX
SNAPSHOT_MAX = layout.SNAPSHOT_MAX


class Codec:
    """One way to turn values into bytes. May be subclassed in Python; call ``super().__init__``.

    Args:
        name: by which calls choose it.
        id: its number on the wire. 1 to 127 are the library's, 128 to 65,535 the application's.

    The fields are set here and not as class attributes, because compiled code reads them as C fields.
    """

    __slots__ = ("id", "name")

    def __init__(self, name: str, id: int) -> None:  # noqa: A002  the name that the attribute has
        self.name = name
        self.id = id

    def encode_args(self, args: tuple[Any, ...], buffers: list[bytes | memoryview]) -> bytes | memoryview:
        """Encode the positional arguments of a call.

        Args:
            args: the arguments.
            buffers: an empty list, to which the buffers are appended.

        Returns:
            The body.

        Raises:
            SerializationError: an argument cannot be encoded; the text names the path to it.
        """
        raise NotImplementedError(f"{type(self).__name__}.encode_args")

    def decode_args(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Sequence[Any]:
        """Decode the positional arguments of a call: the inverse of :meth:`encode_args`.

        Raises:
            SerializationError: the message is not what :meth:`encode_args` produces.
        """
        raise NotImplementedError(f"{type(self).__name__}.decode_args")

    def encode_value(self, value: Any, buffers: list[bytes | memoryview]) -> bytes | memoryview:
        """Encode a result or an item; arguments and errors as for :meth:`encode_args`."""
        raise NotImplementedError(f"{type(self).__name__}.encode_value")

    def decode_value(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Any:
        """Decode a result or an item: the inverse of :meth:`encode_value`."""
        raise NotImplementedError(f"{type(self).__name__}.decode_value")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} id={self.id}>"


class RawCodec(Codec):
    """One bytes-like value, as it is.

    A value of up to :data:`INLINE_MAX` bytes is the body and arrives as ``bytes``. A larger one is the only buffer,
    with an empty body, and arrives as a writable ``memoryview`` of the memory that it was received into.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("raw", 1)

    def encode_args(self, args: tuple[Any, ...], buffers: list[bytes | memoryview]) -> bytes | memoryview:
        if len(args) != 1:
            raise SerializationError(f"raw takes one bytes-like value, not {len(args)} arguments")
        value = args[0]
        if type(value) is bytes and len(value) <= layout.INLINE_MAX:
            return value
        return self.encode_value(value, buffers)

    def encode_value(self, value: Any, buffers: list[bytes | memoryview]) -> bytes | memoryview:
        flat: Any = value if type(value) is bytes else flatten(value)
        if flat is None:
            raise SerializationError(f"raw takes one bytes-like value, not {type(value).__name__}")
        if len(flat) <= layout.INLINE_MAX:
            return flat  # type: ignore[no-any-return]
        buffers.append(flat)
        return b""

    def decode_args(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Sequence[Any]:
        if not buffers and type(body) is bytes and len(body) <= layout.INLINE_MAX:
            return (body,)
        return (self.decode_value(body, buffers),)

    def decode_value(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Any:
        if not buffers:
            if len(body) > layout.INLINE_MAX:
                raise SerializationError(f"raw: a body of {len(body)} bytes; above {INLINE_MAX} it must be a buffer")
            return body if type(body) is bytes else bytes(body)
        if len(buffers) != 1 or len(body) != 0:
            raise SerializationError(f"raw: {len(buffers)} buffers and a body of {len(body)} bytes; one or the other")
        if len(buffers[0]) <= layout.INLINE_MAX:
            raise SerializationError(f"raw: a buffer of {len(buffers[0])} bytes; up to {INLINE_MAX} it is the body")
        return buffers[0]


def flatten(value: Any) -> bytes | memoryview | None:
    """The bytes of a bytes-like value in C order, copied only if it is small and mutable, or not contiguous.

    Returns:
        The ``bytes`` object itself, a flat view of a larger object, or a copy; ``None`` if the value is not bytes-like.

    Raises:
        SerializationError: the value has a buffer but does not give it.
    """
    if type(value) is bytes:
        return value
    try:
        view = memoryview(value)
    except TypeError:
        return None
    except (ValueError, BufferError) as error:  # a view that was released, an array of a type without a format
        raise SerializationError(f"the buffer of {type(value).__name__} cannot be read: {error}") from error
    if view.nbytes <= layout.SNAPSHOT_MAX or not view.c_contiguous:
        return view.tobytes()
    if view.ndim == 1 and view.format == "B":
        return view
    try:
        return view.cast("B")
    except TypeError:  # a format that cast does not know, such as "<d"
        return view.tobytes()
