"""The ``rpcproto`` command: one file per subcommand, ``app`` puts them together. Needs the extra ``cli``.

Rules:

- It uses the public names of ``rpcproto`` and ``rpcproto.bench``, as any program could.
- What a program may want goes to stdout, everything said to a person beside it (log, progress, errors) to stderr.
- An error is one line, ``rpcproto: ...``, and an exit code of ``_exit.ExitCode``. A Python traceback means a bug.
- What a peer sent is printed with control characters escaped: a peer must not write to the user's terminal.
- ``rich`` is imported where a table is drawn, so that ``rpcproto call`` does not pay for it.
"""

from __future__ import annotations
