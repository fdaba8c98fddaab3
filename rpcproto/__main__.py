"""Entry point of the ``rpcproto`` command and of ``python -m rpcproto``.

Only checks that what the command needs is installed; the command itself is ``rpcproto.cli``.
"""

from __future__ import annotations

import importlib
import sys

__all__ = ["main"]

_NEEDED = ("click", "rich")


def main() -> int:
    """Run the command with the arguments of the process.

    Returns:
        The exit code; ``rpcproto --help`` and the help of each command say what it means.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            print(f"rpcproto: the command needs {' and '.join(_NEEDED)}: pip install rpcproto[cli]", file=sys.stderr)
            return 2
    try:
        from .cli import app

        return app.run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
