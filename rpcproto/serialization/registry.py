"""The codecs that calls and frames name: by name for those who make a call, by id for what arrives."""

from __future__ import annotations

from rpcproto.errors import ConfigurationError
from rpcproto.serialization.codec import Codec, RawCodec
from rpcproto.serialization.msgpack import MsgpackCodec

__all__ = ["FIRST_CUSTOM_ID", "LAST_CUSTOM_ID", "by_id", "get", "register"]

FIRST_CUSTOM_ID = 128
LAST_CUSTOM_ID = 65_535
"""The id of a codec has 16 bits on the wire; ids below the first are the library's."""

_by_name: dict[str, Codec] = {}
_by_id: dict[int, Codec] = {}


def get(codec: str | Codec) -> Codec:
    """The codec of a name; a codec itself is returned as it is.

    Raises:
        ConfigurationError: no codec has this name; the text lists those there are.
    """
    if isinstance(codec, Codec):
        return codec
    found = _by_name.get(codec)
    if found is None:
        raise ConfigurationError(f"no codec is called {codec!r}; there are {', '.join(sorted(_by_name))}")
    return found


def by_id(number: int) -> Codec | None:
    """The codec of an id, ``None`` if there is none."""
    return _by_id.get(number)


def register(codec: Codec) -> None:
    """Make a codec known to this process, under its name and id.

    Both sides of a connection have to register it. Registering the same object again does nothing.

    Args:
        codec: the codec. Its id must be 128 to 65,535.

    Raises:
        ConfigurationError: not a codec, or its name or id is taken or out of range.
    """
    if not isinstance(codec, Codec):
        raise ConfigurationError(f"a codec must be derived from rpcproto.serialization.Codec; {codec!r} is not")
    if not getattr(codec, "name", None) or not hasattr(codec, "id"):
        raise ConfigurationError(f"{type(codec).__name__} has no name or id: call Codec.__init__(name, id)")
    if _by_id.get(codec.id) is codec:
        return
    if not FIRST_CUSTOM_ID <= codec.id <= LAST_CUSTOM_ID:
        raise ConfigurationError(f"the id of {codec!r} must be {FIRST_CUSTOM_ID} to {LAST_CUSTOM_ID}")
    taken = _by_id.get(codec.id) or _by_name.get(codec.name)
    if taken is not None:
        raise ConfigurationError(f"{codec!r} cannot be registered: {taken!r} has its name or id")
    _add(codec)


def _add(codec: Codec) -> None:
    _by_name[codec.name] = codec
    _by_id[codec.id] = codec


_add(RawCodec())
_add(MsgpackCodec())
