"""`rota replay`: a scheduler's recorded decisions made again, by the same configuration or by another."""

from pathlib import Path
from typing import Final

import click

from rota.cli import output
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, scheduler_options

#: The exit code if decisions came out otherwise though everything was the same.
DIFFERENT: Final = 3
_MOST_ROWS: Final = 100

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "replay",
    cls=Command,
    examples=[
        ("rota replay decisions.rec", "are all decisions made again as they were made?"),
        ("rota replay decisions.rec --scheduler-config other.yaml", "what would these profiles have done instead?"),
        ("rota replay decisions.rec --scheduler-config other.yaml --json", "every difference, for programs"),
    ],
)
@click.argument("file", type=_file)
@scheduler_options("Decide by this KubeSchedulerConfiguration instead of the recorded one.")
@click.option("--all", "all_rows", is_flag=True, help=f"Show all differences, not only {_MOST_ROWS}.")
@output.json_option
@click.pass_context
def command(ctx: click.Context, *, file: Path, scheduler_files: SchedulerFiles, all_rows: bool, as_json: bool) -> None:
    """Make the decisions of a recording (rota scheduler --record FILE) again.

    Each is made on the cluster as it was then, with the same seed and with what extenders said then. Without
    --scheduler-config all must come out as they did; the exit code is 3 if one does not. With it, the differences are
    what the other configuration would have decided in each situation.
    """
    from rota.cli.commands import replay_run  # noqa: PLC0415 - the scheduler is not needed to refuse an option

    most = None if all_rows else _MOST_ROWS
    same = replay_run.replay(file=file, scheduler_files=scheduler_files, most_rows=most, as_json=as_json)
    if not same and scheduler_files.config is None:
        ctx.exit(DIFFERENT)
