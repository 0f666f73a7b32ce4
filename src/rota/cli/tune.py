"""`rota tune`: look for better weights of the scheduler on a trace, and propose them."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_out = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "tune",
    cls=Command,
    examples=[
        ("rota tune week.jsonl.gz --goal energy_kwh", "look for weights that need less energy"),
        ("rota tune week.jsonl.gz --goal wait_p99_s --output shorter.yaml", "write the proposal to a file"),
        ("rota tune week.jsonl.gz --goal energy_kwh --power 90,250,off --create --name less-energy", "propose it"),
        (
            "rota tune week.jsonl.gz --goal wait_p99_s --parameter TargetLoadPacking.targetUtilization",
            "one threshold of a configuration",
        ),
    ],
)
@click.argument("file", metavar="TRACE", type=_file)
@click.option("--goal", required=True, metavar="FIGURE", help="The figure of rota simulate that is to get better.")
@click.option(
    "--policy",
    metavar="NAME|FILE",
    help="The present configuration.",
    show_default="that of the recording, or the stock one",
)
@click.option("--plugin", "plugins", type=_file, multiple=True, metavar="FILE.py", help="Python file with plugins.")
@click.option(
    "--profile", default="default-scheduler", show_default=True, metavar="NAME", help="The schedulerName to tune."
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="PLUGIN[.ARGUMENT]",
    help="A weight or a numeric argument to change; repeatable. All weights of the profile if none is given.",
)
@click.option("--seeds", type=click.IntRange(2, 1000), default=5, show_default=True, help="Seeds of each comparison.")
@click.option("--first-seed", type=int, default=42, show_default=True, help="The first seed; the others follow it.")
@click.option("--rounds", type=click.IntRange(1, 20), default=3, show_default=True, help="Changes to make at most.")
@click.option(
    "--keep",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="The part of the pods that each seed keeps.",
)
@click.option("--power", metavar="IDLE,BUSY[,off]", default="100,300", show_default=True, help="Watts of a node.")
@click.option("--duration", metavar="TIME", help="How long pods run of which the trace does not say it.")
@click.option("--name", default="tuned", show_default=True, metavar="NAME", help="The name of the proposal.")
@click.option(
    "--approve",
    type=click.Choice(["manual", "auto"]),
    default="manual",
    show_default=True,
    help="Whether a user approves the proposal, or its evidence if nothing gets worse.",
)
@click.option("--output", "output_file", type=_out, metavar="FILE", help="Write the proposal to this file.")
@click.option("--create", is_flag=True, help="Create the proposal in the cluster.")
@endpoints.nearest_options
@output.json_option
def command(*, file: Path, **given: Any) -> None:
    """Look for better weights of the scheduler on a trace, and propose them.

    TRACE is a file of rota dump or of rota scheduler --record, or one in the same format. The search doubles and halves
    one value after the other and runs the trace in virtual time on paired seeds, each of which leaves out other pods. A
    change counts if the goal gets better outside noise and no other figure gets worse. The result is compared once more
    on other seeds; that comparison is in the proposal, with 95 % intervals.

    A proposal is a TuningProposal. Once it is approved, the leading master puts the values into force step by step,
    and takes them back if live figures get worse. --json prints the proposal, or null if there is nothing to propose.
    """
    from rota.cli.commands import tuning_search  # noqa: PLC0415 - not needed to refuse an option

    tuning_search.tune(file=file, **given)
