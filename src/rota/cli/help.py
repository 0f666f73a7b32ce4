"""`rota help`: the help of a command, or of a topic."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from rota.cli import verbs
from rota.cli.command_types import Command

EXIT_CODES: Final = (
    ("0", "success"),
    ("1", "a bug in Rota, with a traceback: please report it; rota pipeline with --watch: the run failed"),
    ("2", "an error that you can correct, in one line on standard error"),
    (
        "3",
        "rota decide, rota federation decide: a scenario was not decided; rota replay: a decision differs",
    ),
    ("125", "rota run: Rota could not start the command, or lost it"),
    ("128 + N", "signal N ended the command or Rota itself: 130 is Ctrl-C, 137 SIGKILL, 143 SIGTERM"),
    ("141", "the reader of the output closed the pipe"),
    ("any", "rota run and rota exec exit with the command's own code"),
)
_TOPICS: Final = {"exit-codes": EXIT_CODES}


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    del ctx, param
    return [CompletionItem(one) for one in (*verbs.VERBS, *_TOPICS) if one.startswith(incomplete)]


@click.command(
    "help",
    cls=Command,
    examples=[
        ("rota help run", "the same as rota run --help"),
        ("rota help token create", "the help of a subcommand"),
        ("rota help exit-codes", "what the exit codes mean"),
    ],
)
@click.argument("words", metavar="[COMMAND|TOPIC]...", nargs=-1, shell_complete=_complete)
@click.pass_context
def command(ctx: click.Context, /, *, words: tuple[str, ...]) -> None:
    """Show the help of a command, or of a topic: exit-codes."""
    if len(words) == 1 and words[0] in _TOPICS:
        formatter = ctx.make_formatter()
        with formatter.section("Exit codes"):
            formatter.write_dl(list(_TOPICS[words[0]]))
        click.echo(formatter.getvalue(), nl=False)
        return
    shown = ctx.find_root()
    for word in words:
        group = shown.command
        found = group.get_command(shown, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no command {' '.join(words)!r}")
        shown = click.Context(found, parent=shown, info_name=word)
    click.echo(shown.get_help())
