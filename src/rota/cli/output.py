"""How verbs print: pretty for people at a terminal, plain and stable for programs that read a pipe.

Colour, boxes and moving parts appear on a terminal only, and colour not even there if NO_COLOR is set. Values are shown
as they are: markup and control characters in a name do nothing. rich is imported on first use, since most calls of
`rota` end without it.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from rota.kit import logs

if TYPE_CHECKING:
    from rich.console import Console

#: `--json`, by the same name everywhere: one JSON document on standard output and nothing else.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs.")


def document(value: Any) -> None:
    """Print a value as JSON: indented for people, on one line in a pipe."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()) -> None:
    """Print rows under headings; the columns named in `right` (numbers) are flush right."""
    cells = [[_shown(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells, right)
    else:
        _plain_table(columns, cells, right)


@contextlib.contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show how far long work has come; call what you get with the number of steps done since the last call.

    Shown on standard error, on a terminal only, and gone when the work is done.
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
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        drawn.add_column(Text(name), justify="right" if name in right else "left")
    for row in cells:
        drawn.add_row(*map(Text, row))
    _console().print(drawn)


def _console(*, stderr: bool = False) -> "Console":
    from rich.console import Console  # noqa: PLC0415

    colour = logs.wants_colour(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, highlight=False, color_system="auto" if colour else None)


def _shown(value: object) -> str:
    """One line of what a terminal can print."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
