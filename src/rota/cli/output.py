"""Output of commands: formatted on a terminal, plain and stable in a pipe.

Colour, boxes and spinners appear on a terminal only; NO_COLOR turns colour off. Control characters and markup in
values have no effect. rich is imported on first use, since most commands do not need it.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from rota.kit import logs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: The colour of a word in a status.
_WORDS: Final = {
    **dict.fromkeys(
        (
            "Failed", "Error", "NotReady", "Unknown", "CrashLoopBackOff", "OOMKilled", "Evicted", "StartError",
            "DeadlineExceeded", "BackoffLimitExceeded", "ImagePullBackOff", "ErrImagePull", "CreateContainerError",
            "CreateContainerConfigError", "RunContainerError", "Lost", "Warning", "no",
        ),
        "red",
    ),
    **dict.fromkeys(
        (
            "Pending", "Terminating", "ContainerCreating", "PodInitializing", "SchedulingDisabled", "SchedulingGated",
            "Suspended", "Released", "cordoned",
        ),
        "yellow",
    ),
    **dict.fromkeys(("Running", "Ready", "Active", "Bound", "Complete", "Available", "Established", "yes"), "green"),
    **dict.fromkeys(("Completed", "Succeeded", "Normal"), "dim"),
}  # fmt: skip
#: The columns that are coloured.
_PAINTED: Final = frozenset({"STATUS", "PHASE", "STATE", "READY", "TYPE", "REASON"})

#: `--json`: one JSON document on standard output and nothing else.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Show(Protocol):
    """A function that prints a table, or replaces the one that it printed before."""

    def __call__(self, columns: Sequence[str], rows: Iterable[Sequence[object]], /) -> None:
        """Headings and rows."""
        ...


def document(value: Any) -> None:
    """Print a value as JSON: indented on a terminal, on one line in a pipe."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def painted(text: str, *, stderr: bool = False, **style: Any) -> str:
    """One line of text in click's `style` on a terminal; control characters are replaced."""
    plain = printable(text)
    return click.style(plain, **style) if logs.wants_colour(sys.stderr if stderr else sys.stdout) else plain


def note(text: str) -> None:
    """Print a line on standard error that is not part of the output."""
    click.echo(painted(text, stderr=True, dim=True), err=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()) -> None:
    """Print rows under headings; the columns in `right` (numbers) are aligned right."""
    cells = [[printable(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells, right)
    else:
        _plain_table(columns, cells, right)


@contextlib.contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Show what a command waits for: beside a spinner on a terminal, as lines in a pipe."""
    said = ""
    if not sys.stderr.isatty():

        def say(text: str) -> None:
            nonlocal said
            if text != said:
                said = text
                note(text)

        yield say
        return
    from rich.text import Text  # noqa: PLC0415

    with contextlib.ExitStack() as shown:
        spinner = _console(stderr=True).status("")

        def turn(text: str) -> None:
            nonlocal said
            if not said:
                shown.enter_context(spinner)
            if text != said:
                said = text
                spinner.update(Text(printable(text)))

        yield turn


@contextlib.contextmanager
def live() -> Iterator[Show | None]:
    """A function that prints a table and replaces it on the next call; None if this is no terminal."""
    if not sys.stdout.isatty():
        yield None
        return
    from rich.live import Live  # noqa: PLC0415

    with Live(console=_console(), auto_refresh=False, vertical_overflow="ellipsis") as display:

        def show(columns: Sequence[str], rows: Iterable[Sequence[object]], /) -> None:
            drawn = _drawn(columns, [[printable(value) for value in row] for row in rows], ())
            display.update(drawn, refresh=True)

        yield show


@contextlib.contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; call the result with the number of steps done since the last call.

    It is shown on standard error, on a terminal only, and removed at the end.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich import progress as bars  # noqa: PLC0415

    parts = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*parts, console=_console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=total)
        yield lambda steps: display.advance(task, steps)


def _plain_table(columns: Sequence[str], cells: list[list[str]], right: Collection[str]) -> None:
    lines = [list(columns), *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _rich_table(columns: Sequence[str], cells: list[list[str]], right: Collection[str]) -> None:
    _console().print(_drawn(columns, cells, right))


def _drawn(columns: Sequence[str], cells: list[list[str]], right: Collection[str]) -> "Table":
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        drawn.add_column(Text(name), justify="right" if name in right else "left")
    for row in cells:
        drawn.add_row(*(Text(cell, style=_style(name, cell)) for name, cell in zip(columns, row, strict=True)))
    return drawn


def _style(column: str, cell: str) -> str:
    """The colour of a status, by its last known word: `Ready,SchedulingDisabled` is yellow."""
    if column not in _PAINTED:
        return ""
    words = cell.replace("Init:", "").replace(",", " ").split()
    return next((_WORDS[word] for word in reversed(words) if word in _WORDS), "")


def _console(*, stderr: bool = False) -> "Console":
    from rich.console import Console  # noqa: PLC0415

    colour = logs.wants_colour(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, highlight=False, color_system="auto" if colour else None)


def printable(value: object) -> str:
    """The value as one line of printable characters."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
