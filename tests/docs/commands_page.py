"""The page docs/reference/commands.md, written from the commands themselves."""

from collections.abc import Iterator
from pathlib import Path

import click

from rota.cli import help as helping
from rota.cli import verbs
from rota.cli.command_types import Command
from rota.cli.main import root

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
_HEAD = """\
# Commands

Every command, as `rota COMMAND --help` tells it. This page is written by a test from the commands themselves: change
those, then run `REWRITE_REFERENCE=1 pytest tests/docs/test_commands.py`.
"""


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_exit_codes(), *_sections()]).rstrip("\n") + "\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | meaning |\n| --- | --- |"
    for code, meaning in helping.EXIT_CODES:
        yield f"| {code} | {meaning} |"
    yield ""


def _sections() -> Iterator[str]:
    for title, members in verbs.SECTIONS.items():
        yield f"## {title}\n"
        for verb in members:
            context = click.Context(root, info_name="rota", **root.context_settings)
            command = root.get_command(context, verb.name)
            assert command is not None
            yield from _command(command, click.Context(command, parent=context, info_name=verb.name), depth=3)


def _command(command: click.Command, context: click.Context, *, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {context.command_path}\n"
    usage = " ".join(piece.strip() for piece in command.collect_usage_pieces(context))
    yield f"    {context.command_path} {usage}\n"
    yield from (" ".join(part.split()) + "\n" for part in (command.help or "").split("\n\n"))
    records = [one.get_help_record(context) for one in command.get_params(context)]
    options = [record for record in records if record is not None and record[1] and "--help" not in record[0]]
    if options:
        yield "| option | |\n| --- | --- |"
        for names, meaning in options:
            yield f"| {_code(names)} | {_cell(meaning)} |"
        yield ""
    if isinstance(command, Command) and command.examples:
        for line, meaning in command.examples:
            yield f"    # {meaning}\n    {line}"
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, parent=context, info_name=name), depth=depth + 1)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
