"""`rota simulate`: run a trace through scheduler configurations in virtual time and compare them."""

from pathlib import Path
from typing import Any

import click

from rota.cli import output
from rota.cli.command_types import Command

_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_out = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "simulate",
    cls=Command,
    examples=[
        ("rota simulate week.jsonl.gz --html report.html", "a trace or a recording, with the stock configuration"),
        ("rota simulate week.jsonl.gz --policy default,mine.yaml --seeds 5", "compare configurations"),
        (
            "rota simulate --csv jobs.csv --map at=submit,duration=runtime,cpu=cores --nodes 100xcpu=32,memory=128Gi",
            "a workload of one's own on a cluster written out",
        ),
        (
            "rota simulate now.jsonl.gz --failures exponential:86400/600 --recreate 5 --until 86400",
            "a day with failures",
        ),
        (
            "rota simulate --openb DATA --policy fgd,bestfit --seeds 10",
            "the published study of shared GPUs, with two policies",
        ),
    ],
)
@click.argument("file", metavar="[TRACE]", required=False, type=_file)
@click.option(
    "--csv", "csv_file", type=_file, metavar="FILE", help="Pods of a CSV file; --map says what its columns are."
)
@click.option("--map", "mapping", metavar="FIELD=COLUMN[:UNIT],...", default="", help="The columns of --csv.")
@click.option("--azure", type=_file, metavar="FILE", help="Machines of Azure's public trace (vmtable.csv).")
@click.option("--google", type=_folder, metavar="DIR", help="Google's cluster trace of 2011.")
@click.option("--openb", type=_folder, metavar="DIR", help="The folder with the CSV files of OpenB.")
@click.option(
    "--trace",
    "traces",
    default="default",
    show_default=True,
    metavar="NAMES",
    help="Pod lists of OpenB, with commas between them; all for every one.",
)
@click.option(
    "--cluster", type=_file, metavar="FILE", help="Nodes and pods of a dump, or of kubectl get -o json, instead."
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="[POOL:]NxAMOUNTS",
    help="Nodes instead of those of the trace, such as 100xcpu=32,memory=128Gi; repeatable.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAMES",
    help="Policies by name, or configuration files, with commas between them; repeatable.",
    show_default="default",
)
@click.option(
    "--plugin",
    "plugins",
    type=_file,
    multiple=True,
    metavar="FILE.py",
    help="Python file with scheduler plugins; repeatable.",
)
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, help="The number of seeds.")
@click.option("--first-seed", type=int, default=42, show_default=True, help="The first seed; the others follow it.")
@click.option(
    "--ties",
    type=click.Choice(["shuffled-name", "name", "random", "best-fit"]),
    default="shuffled-name",
    show_default=True,
    help="Which of several best nodes is taken; the default is the rule of OpenB's authors.",
)
@click.option(
    "--tune",
    type=click.FloatRange(0, 100, min_open=True),
    default=1.3,
    show_default=True,
    help="The demand for GPUs that the pods of OpenB are tuned to, as a part of the cluster.",
)
@click.option("--duration", metavar="TIME", help="How long pods run of which the trace does not say it.")
@click.option(
    "--bind-latency", metavar="TIME", default="0", show_default=True, help="From a decision to the bound pod."
)
@click.option("--attempt-time", metavar="TIME", default="0", show_default=True, help="How long a decision takes.")
@click.option("--grace", metavar="TIME", default="0", show_default=True, help="From an eviction until the pod is gone.")
@click.option("--recreate", metavar="TIME", help="When owners create another pod for one that was lost.")
@click.option("--failures", metavar="BETWEEN/REPAIR", help="The time between failures of a node, and until it is back.")
@click.option(
    "--spot",
    metavar="LABEL=VALUE/BETWEEN/NOTICE/REPLACEMENT",
    help="Spot nodes: the time between interruptions, the notice, and when another node comes.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME:MOSTxAMOUNTS[/BOOT/IDLE]",
    help="Nodes that come while pods wait and go when they are empty; repeatable.",
)
@click.option("--power", metavar="IDLE,BUSY[,off]", default="100,300", show_default=True, help="Watts of a node.")
@click.option(
    "--until", "until_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="End at this time."
)
@click.option("--lenient", is_flag=True, help="Count faulty rows of the input and skip them.")
@click.option("--html", "html_file", type=_out, metavar="FILE", help="Write the report with plots as an HTML page.")
@click.option("--write-trace", type=_out, metavar="FILE", help="Write the workload as a trace and end.")
@output.json_option
def command(
    *,
    file: Path | None,
    csv_file: Path | None,
    azure: Path | None,
    google: Path | None,
    openb: Path | None,
    **given: Any,
) -> None:
    """Run a trace through the scheduler in virtual time, and compare policies.

    Decisions are made by the same profiles and plugins as those of rota up and rota scheduler. TRACE is a file of rota
    dump or of --record, or one in the same format. Several policies run on the same seeds and are compared with the
    first one; differences within noise are marked. Ctrl-C ends the runs and gives the report so far. Equal inputs give
    equal reports.

    TIME is a number of seconds, or a distribution: uniform:1,5, exponential:300 or lognormal:300,1.5.

    --openb reads Alibaba's trace of shared GPUs and follows its published protocol: pods in random order, tuned to a
    demand of 130 % of the GPUs; they arrive one by one, and a pod that finds no node is dropped.
    """
    sources = [each for each in (file, csv_file, azure, google, openb) if each is not None]
    if len(sources) != 1:
        raise click.UsageError("give one workload: a TRACE, --csv, --azure, --google or --openb")
    if (csv_file is None) != (not given["mapping"]):
        raise click.UsageError("--csv and --map belong together")
    from rota.cli.commands import simulation_run  # noqa: PLC0415 - not needed to refuse an option

    simulation_run.simulate(file=file, csv_file=csv_file, azure=azure, google=google, openb=openb, **given)
