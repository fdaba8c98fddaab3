"""The command group: global options, the list of commands, and how errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

import rpcproto
from rpcproto.errors import RpcError

from ._exit import ExitCode, exit_code, one_line
from .bench import bench
from .call import call
from .info import info
from .inspect import inspect
from .ping import ping
from .serve import serve

__all__ = ["app", "run"]


class App(click.Group):
    """A click group that reports every expected error as one line on stderr, with its exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run the command and leave by :exc:`SystemExit`, whatever happens and whatever ``standalone_mode`` is."""
        try:
            outcome = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            # Flush here: a reader that has gone away must not show up as an exception at exit.
            sys.stdout.flush()
        except RpcError as error:
            fail(str(error), exit_code(error))
        except click.UsageError as error:
            hint = f" (see: {error.ctx.command_path} --help)" if error.ctx else ""
            fail(error.format_message() + hint, ExitCode.USAGE)
        except click.ClickException as error:
            fail(error.format_message(), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(ExitCode.FAILED)
        except OSError as error:
            fail(str(error), ExitCode.FAILED)
        sys.exit(outcome if isinstance(outcome, int) else ExitCode.OK)


def fail(message: str, code: int) -> NoReturn:
    """Print ``rpcproto: message`` on stderr and exit."""
    click.echo(f"rpcproto: {one_line(message)}", err=True)
    sys.exit(code)


@click.group(
    cls=App,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Try it:
  rpcproto serve tcp://127.0.0.1:5555         an echo service to talk to
  rpcproto ping tcp://127.0.0.1:5555          how far away is it?
  rpcproto call tcp://127.0.0.1:5555 Echo.echo '"hello"'
  rpcproto inspect --help                     what does a server offer and do?
  rpcproto bench                              how fast is this machine?

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no connection, 4 out of time,
130 Ctrl-C. Errors are one line on stderr; results go to stdout.
""",
)
@click.version_option(rpcproto.__version__, message="rpcproto %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Messages between Python processes: serve, call, inspect and measure from the command line.

    Addresses are tcp://HOST:PORT, with [..] around an IPv6 host, or unix:///PATH.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(ExitCode.USAGE)


for command in (bench, call, info, inspect, ping, serve):
    app.add_command(command)


def run() -> int:
    """Run the command with the arguments of the process and return the exit code."""
    try:
        app.main(prog_name="rpcproto")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.FAILED
