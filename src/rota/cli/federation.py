"""`rota federation`: run and inspect a federation of clusters by Karmada's policies."""

import shlex
import sys
from pathlib import Path
from typing import Final

import click

from rota.cli import federation_members, federation_operations, federation_views, master_options, options
from rota.cli.command_types import Command, CommandGroup
from rota.kit import logs

UNDECIDED: Final = 3

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group(
    "federation",
    cls=CommandGroup,
    examples=[
        ("rota federation up --data ./federation", "run a control plane; Ctrl-C stops it, the data stays"),
        ("rota federation join m1 --member ./m1/kubeconfig", "add a member cluster"),
        ("rota federation clusters", "list member clusters and their status"),
        ("rota federation decide < scenarios.jsonl", "make decisions offline"),
    ],
)
def command() -> None:
    """Run many clusters as one, by Karmada's policies (policy.karmada.io, work.karmada.io, cluster.karmada.io).

    A control plane stores resources and policies, and applies each resource to the member clusters that its policy
    selects. Members are clusters of `rota up` or any Kubernetes. The control plane connects to them (push mode), or an
    agent in the member connects to the control plane (pull mode).
    """


@command.command(
    "up",
    cls=Command,
    examples=[
        ("rota federation up --data ./federation", "run a control plane; Ctrl-C stops it, the data stays"),
        ("rota federation up --data ./federation --port 7443", "fail if the port is in use"),
    ],
)
@master_options.place_options("federation", "ROTA_FEDERATION_STORE")
@click.option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve on; agents of pull members have to reach it.",
)
@options.health_options
@click.option(
    "--taint-eviction",
    type=click.Choice(["on", "off"]),
    default="off",
    show_default=True,
    help="Whether resources leave clusters with NoExecute taints that their policies do not tolerate.",
)
@options.duration_option("--eviction-timeout", "10m", "How long what leaves a cluster waits for a healthy successor.")
@click.option(
    "--namespaces",
    type=click.Choice(["needed", "all"]),
    default="needed",
    show_default=True,
    help="Create a namespace in the members that get an object in it, or every namespace in all members.",
)
@click.option(
    "--eviction-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=0.5,
    show_default=True,
    metavar="N",
    help="Evictions per second; fewer while most members are lost, and none while all of them are.",
)
@options.duration_option(
    "--lease-grace", "40s", "How long an agent may fail to renew its Lease before its cluster's health is unknown."
)
@options.duration_option(
    "--fence-margin", "20s", "Time added before exclusive workloads of a member that is cut off start elsewhere."
)
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL[,...]",
    default="",
    help="Karmada's feature gates, such as FederatedQuotaEnforcement=true, and GenericInterpretation.",
)
def up(
    *,
    data: Path,
    store_url: str | None,
    port: int | None,
    listen: str,
    taint_eviction: str,
    namespaces: str,
    feature_gates: str,
    **durations: float,
) -> None:
    """Run the control plane of a federation on this machine until interrupted.

    It is a master without scheduler, workers and workload controllers: its resources run in member clusters. The
    administrator's kubeconfig is written to the data folder.
    """
    from rota.cli.commands import federation_start as commands  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    folder = options.made_folder(data.absolute())
    url = store_url or options.sqlite_url(folder / "rota.db")
    commands.up(
        url,
        folder,
        port=port,
        listen=listen,
        alone=not store_url,
        evict_tainted=taint_eviction == "on",
        namespaces_everywhere=namespaces == "all",
        feature_gates=feature_gates,
        ready=_ready,
        **durations,
    )
    click.echo("The federation has stopped.")


def _ready(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        click.echo(f"{name:>9}  {fact}")
    click.echo("The federation is up. Ctrl-C stops it; the data stays.")
    click.echo(f"Try: export KUBECONFIG={shlex.quote(facts['config'])}")
    click.echo("     rota federation join NAME --member KUBECONFIG")


@command.command(
    "decide",
    cls=Command,
    examples=[
        ("rota federation decide < scenarios.jsonl", "one decision per line, as JSON"),
        ("rota federation decide scenarios.jsonl.gz", "from a file, compressed or not"),
    ],
)
@click.argument("files", metavar="[SCENARIOS]...", nargs=-1, type=_file)
@click.pass_context
def decide(ctx: click.Context, *, files: tuple[Path, ...]) -> None:
    """Make the decisions of a federation offline.

    Reads SCENARIOS (files or standard input): one JSON object per line with an id, a category and the category's
    fields. Prints one line for each with the id and the decision:

    {"id": "a", "category": "divide", "replicas": 5, "uid": "u", "weights": [{"name": "m1", "replicas": 2}, {"name":
    "m2", "replicas": 1}]}

    Categories: schedule (which clusters a binding goes to, and how its replicas are divided), trigger, divide,
    estimate, match and bind (which policy claims a resource, and its binding), override, work, collect, interpret,
    evict, depend, validate, hpa, usage, names. A line that cannot be decided yields an error that names the line, and
    exit code 3.
    """
    if not files and sys.stdin.isatty():
        raise click.UsageError("give scenarios")
    from rota.cli.commands import federation_scenarios as commands  # noqa: PLC0415 - not needed to refuse an option

    if not commands.decide(files):
        ctx.exit(UNDECIDED)


command.add_command(federation_views.get)
command.add_command(federation_views.interpret)
federation_members.add_to(command)
federation_operations.add_to(command)
