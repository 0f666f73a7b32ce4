"""`rota federation`: many clusters as one, by Karmada's policies."""

import sys
from pathlib import Path
from typing import Final

import click

from rota.cli.command_types import Command, CommandGroup

UNDECIDED: Final = 3

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group(
    "federation",
    cls=CommandGroup,
    examples=[("rota federation decide < scenarios.jsonl", "one decision per line, as JSON")],
)
def command() -> None:
    """Decide about many clusters as one, by Karmada's policies (policy.karmada.io and work.karmada.io)."""


@command.command(
    "decide",
    cls=Command,
    examples=[
        ("rota federation decide < scenarios.jsonl", "one decision per line, as JSON"),
        ("rota federation decide scenarios.jsonl.gz", "of a file, compressed or not"),
    ],
)
@click.argument("files", metavar="[SCENARIOS]...", nargs=-1, type=_file)
@click.pass_context
def decide(ctx: click.Context, *, files: tuple[Path, ...]) -> None:
    """Say what a federation would decide, without touching a cluster.

    Reads SCENARIOS (files, or standard input): one JSON object per line, with a name (id), a category and its members.
    Prints one line for each, with the name and the decision, as soon as it is made:

    {"id": "a", "category": "divide", "replicas": 5, "uid": "u", "weights": [{"name": "m1", "replicas": 2}, {"name":
    "m2", "replicas": 1}]}

    Categories: schedule (which clusters a binding goes to, and how its replicas are divided), trigger, divide,
    estimate, match and bind (which policy claims a resource, and its binding), override, work, collect, interpret,
    evict, depend, validate, hpa, usage, names. A line that cannot be decided is answered with an error that names the
    line; the exit code is then 3.
    """
    if not files and sys.stdin.isatty():
        raise click.UsageError("give scenarios")
    from rota.cli.commands import federating  # noqa: PLC0415 - the rules are not needed to refuse an option

    if not federating.decide(files):
        ctx.exit(UNDECIDED)
