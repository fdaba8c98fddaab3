"""Frames to calls and back. Knows no socket, loop or clock.

Rules of this package:

1. A :class:`~rpcproto.connection.connection.Connection` is driven from outside: the decoder tells it what arrived,
   the shell opens calls, takes what is to be sent (``take``), and passes the time (``on_time``). It answers through a
   :class:`~rpcproto.connection.handler.CallHandler`.
2. Everything that changes the state of a call or of a connection is in ``connection.py`` and the files it is split
   into; the table of section 3 of ``wire/PROTOCOL.md`` is the law.
3. Every pending call ends exactly once. Whatever is under way for a call that has ended is dropped and counted.
4. What the peer can make us hold is bounded: windows and budget for what arrives, ``max_queued`` for what waits to
be sent.
5. Nothing here waits. What cannot be sent yet is queued and goes out when credit, an admission or room in the socket
comes.
"""
