"""Values to a small body and out-of-band buffers, and back. Knows nothing of frames, calls or connections.

Rules of this package:

1. A codec is a :class:`Codec`: it encodes arguments and values, and decodes them again. ``codec.py`` has its contract.
2. A value arrives as it was sent, or encoding fails at the caller with the path to what cannot be sent.
3. Large data is not copied on its way: it is a buffer beside the body, sent from where it lies and received into
   the memory that the value then uses.
4. What arrives is hostile until checked. Decoding is bounded in time and memory by the size of what came, and runs no
   code that the peer chose.
5. Every failure is a :class:`~rpcproto.errors.SerializationError`; any other exception out of this package is a bug.

``msgpack`` is the default, ``raw`` passes bytes, :func:`register` adds an application's own.
"""

from __future__ import annotations

from rpcproto.serialization.codec import Codec, RawCodec
from rpcproto.serialization.msgpack import MsgpackCodec
from rpcproto.serialization.registry import by_id, get, register

__all__ = ["Codec", "MsgpackCodec", "RawCodec", "by_id", "get", "register"]
