"""Bytes to frames and back. Knows no socket, loop or clock.

Rules of this package:

1. ``PROTOCOL.md`` is the law; ``spec.py`` and ``spec.pxd`` hold its numbers.
2. The decoder owns the bytes that arrive and calls a :class:`~rpcproto.wire.sink.FrameSink`; what it hands over is the
   receiver's for good, never a view into memory that is used again.
3. What arrives does not depend on how the bytes were cut into reads.
4. Nothing is allocated for a length that was only announced, beyond what the sink has reserved.
5. A breach of the protocol is a :class:`~rpcproto.errors.RemoteProtocolError` with the code to tell the peer; any
   other exception out of this package is a bug.
"""
