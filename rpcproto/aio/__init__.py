"""The asyncio shell: sessions over transports, clients, servers and services.

Rules of this package:

1. A call passes only through compiled code between the socket and user code: ``session``, ``reply``, ``items`` and
   ``writer``. What happens once a connection (``link``, ``client``, ``server``) or once a task (``tasks``) is plain
   Python.
2. State of calls is kept by :mod:`rpcproto.connection`, not here. Here is what needs a loop: sockets, tasks,
threads, timers.
3. No exception reaches the loop's handler, and nothing is left after ``close``.
"""
