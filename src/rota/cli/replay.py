"""`rota replay`: a scheduler's recorded decisions made again, by the same configuration or by another."""

from pathlib import Path
from typing import Final

import click

from rota.cli import output
from rota.cli.commands import Command

#: The exit code if decisions came out otherwise though everything was the same.
DIFFERENT: Final = 3
_MOST_ROWS: Final = 100

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "replay",
    cls=Command,
    examples=[
        ("rota replay decisions.rec", "are all decisions made again as they were made?"),
        ("rota replay decisions.rec --config other.yaml", "what would these profiles have done instead?"),
        ("rota replay decisions.rec --config other.yaml --json", "every difference, for programs"),
    ],
)
@click.argument("file", type=_file)
@click.option("--config", "config_file", type=_file, metavar="FILE", help="Another KubeSchedulerConfiguration.")
@click.option("--all", "all_rows", is_flag=True, help=f"Show all differences, not only {_MOST_ROWS}.")
@output.json_option
@click.pass_context
def command(ctx: click.Context, *, file: Path, config_file: Path | None, all_rows: bool, as_json: bool) -> None:
    """Make the decisions of a recording (rota scheduler --record FILE) again.

    Each is made on the cluster as it was then, with the same seed and with what extenders said then. Without --config
    all must come out as they did; the exit code is 3 if one does not. With --config, the differences are what the other
    configuration would have decided in each situation.
    """
    from rota.cli.acts import replaying  # noqa: PLC0415 - the scheduler is not needed to refuse an option

    most = None if all_rows else _MOST_ROWS
    same = replaying.replay(file=file, config_file=config_file, most_rows=most, as_json=as_json)
    if not same and config_file is None:
        ctx.exit(DIFFERENT)
