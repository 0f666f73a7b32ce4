"""`rota replay`: repeat recorded scheduling decisions, with the same configuration or another."""

from pathlib import Path
from typing import Final

import click

from rota.cli import output
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, scheduler_options

#: The exit code if decisions differ although the configuration is the same.
DIFFERENT: Final = 3
_MOST_ROWS: Final = 100

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "replay",
    cls=Command,
    examples=[
        ("rota replay decisions.rec", "check that all decisions are the same"),
        ("rota replay decisions.rec --scheduler-config other.yaml", "compare with the decisions of other profiles"),
        ("rota replay decisions.rec --scheduler-config other.yaml --json", "all differences as JSON"),
    ],
)
@click.argument("file", type=_file)
@scheduler_options("Use this KubeSchedulerConfiguration instead of the recorded one.")
@click.option("--all", "all_rows", is_flag=True, help=f"Show all differences, not only {_MOST_ROWS}.")
@output.json_option
@click.pass_context
def command(ctx: click.Context, *, file: Path, scheduler_files: SchedulerFiles, all_rows: bool, as_json: bool) -> None:
    """Repeat the decisions of a recording (rota scheduler --record FILE).

    Each decision uses the recorded state of the cluster, the same seed and the recorded answers of extenders. Without
    --scheduler-config all decisions must be the same; the exit code is 3 if one differs. With it, the output shows the
    decisions that the other configuration would have made differently.
    """
    from rota.cli.commands import replay_run  # noqa: PLC0415 - not needed to refuse an option

    most = None if all_rows else _MOST_ROWS
    same = replay_run.replay(file=file, scheduler_files=scheduler_files, most_rows=most, as_json=as_json)
    if not same and scheduler_files.config is None:
        ctx.exit(DIFFERENT)
