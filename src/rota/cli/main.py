"""The `rota` program: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 success; 1 a bug in Rota (with a traceback, please report it); 2 an error that the user can correct, in
one line on standard error; 130 interrupted; 141 the reader of the output closed the pipe. A command may define more.
"""

import errno
import os
import select
import sys
import traceback
from collections.abc import Sequence
from typing import Final, TextIO

import click
from click import shell_completion

import rota
from rota.cli.command_types import COMPLETION_VARIABLE, Root
from rota.kit.errors import UserError

FAILED: Final = 2
INTERRUPTED: Final = 130
READER_GONE: Final = 141
_OUTPUT_FAULTS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
#: Modules that write to standard output and to nothing else.
_WRITERS: Final = frozenset({__name__, "click.utils", "rich.console"})


@click.command(
    cls=Root,
    name="rota",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[("rota COMMAND --help", "description, options and examples of a command")],
)
@click.version_option(rota.__version__, "-V", "--version", message="%(prog)s %(version)s", help="Show the version.")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Rota: a scheduler for any work on any machines."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `rota` with these arguments (default: the process's) and return its exit code."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_completion.shell_complete(root, {}, "rota", COMPLETION_VARIABLE, instruction)
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except UserError as error:
        _print_error(error, str(error))
        return FAILED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return FAILED
    except click.ClickException as error:
        _print_error(error, _click_message(error))
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Exit quietly only if the reader of standard output is gone; another broken connection is an error.
        if not _reader_is_gone(sys.stdout):
            raise
        _discard_output()
        return READER_GONE
    except OSError as error:
        # A full disk behind standard output is the user's to correct; any other OSError is a bug.
        if error.errno not in _OUTPUT_FAULTS or not _came_from_output(error):
            raise
        _discard_output()
        _print_error(error, f"cannot write to standard output: {error.strerror}")
        return FAILED


def _run(arguments: list[str]) -> int:
    try:
        with root.make_context("rota", arguments) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as end:
        code = end.exit_code
    else:
        code = 0
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _print_error(error: Exception, message: str) -> None:
    if os.environ.get("ROTA_DEBUG"):
        traceback.print_exception(error)
    click.echo(f"rota: {' '.join(message.split())}", err=True)


def _click_message(error: click.ClickException) -> str:
    """Click's message in Rota's form: no capital, no full stop, and a hint at the help."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if isinstance(error, click.UsageError) and error.ctx is not None:
        see = f"see '{error.ctx.command_path} --help'"
        # A message that ends with a suggestion is a question.
        return f"{message} S{see[1:]}" if message.endswith("?") else f"{message}; {see}"
    return message


def _came_from_output(error: OSError) -> bool:
    """Whether a write to standard output failed, and not one to a file."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_globals.get("__name__") in _WRITERS


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so the interpreter can flush its buffer at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reader_is_gone(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
