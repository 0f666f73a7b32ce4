"""Command classes: the root, which loads commands when they are called, and commands with examples in their help."""

import importlib
from collections.abc import Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from rota.cli import verbs

#: The environment variable by which the shell script of `rota completion` requests completions.
COMPLETION_VARIABLE: Final = "_ROTA_COMPLETE"


class Command(click.Command):
    """A command. `examples` are pairs of a command line and its purpose; the help ends with them."""

    def __init__(self, *arguments: Any, examples: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """End the help with examples."""
        write_examples(self.examples, formatter)


class CommandGroup(Command, click.Group):
    """A command with subcommands."""


class Root(click.Group):
    """`rota` itself: has the table of commands and imports a command's module only to run it or to show its help."""

    def __init__(self, *arguments: Any, examples: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(verbs.VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        verb = verbs.VERBS.get(cmd_name)
        if verb is None:
            return None
        command = importlib.import_module(verb.module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest similar ones."""
        if args[0] not in verbs.VERBS and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=verbs.VERBS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        width = max(map(len, verbs.VERBS))
        for title, members in verbs.SECTIONS.items():
            with formatter.section(title):
                # Names padded to one width, so that all sections share a column.
                formatter.write_dl([(verb.name.ljust(width), verb.summary) for verb in members])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """End the help with examples."""
        write_examples(self.examples, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands from the table, and the root's options as click does."""
        matching = [verb for verb in verbs.VERBS.values() if verb.name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(verb.name, help=verb.summary) for verb in matching] + options


def write_examples(examples: Sequence[tuple[str, str]], formatter: click.HelpFormatter) -> None:
    """Write the section Examples: each purpose as a comment, then the command line."""
    if examples:
        with formatter.section("Examples"):
            for number, (line, meaning) in enumerate(examples):
                gap = "\n" if number else ""
                indent = " " * formatter.current_indent
                formatter.write(f"{gap}{indent}# {meaning}\n{indent}{line}\n")
