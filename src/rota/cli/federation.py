"""`rota federation`: run and inspect a federation of clusters by Karmada's policies."""

import shlex
import sys
from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, master_options, options, output
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
    selects. Members are clusters of `rota up` or any Kubernetes; the control plane connects to them (push mode).
    """


@command.command(
    "up",
    cls=Command,
    examples=[
        ("rota federation up --data ./federation", "run a control plane; Ctrl-C stops it, the data stays"),
        ("rota federation up --data ./federation --port 7443", "fail if the port is in use"),
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the federation's data; created if missing.",
)
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="ROTA_FEDERATION_STORE",
    show_envvar=True,
    help="Store of the federation, instead of a SQLite file in the data folder.",
)
@click.option(
    "--port",
    type=master_options.PORT,
    metavar="PORT",
    help="Serve the API on this loopback port; 0 for a free one.  [default: 6443, or the next free one]",
)
@click.option(
    "--every",
    "every_s",
    type=options.Duration(),
    default="10s",
    show_default=True,
    help="Interval of health checks of members.",
)
@click.option(
    "--threshold",
    "threshold_s",
    type=options.Duration(nothing="at once"),
    default="30s",
    show_default=True,
    help="How long a member's health must have changed before its condition changes; 0: at once.",
)
@click.option(
    "--taint-eviction",
    type=click.Choice(["on", "off"]),
    default="off",
    show_default=True,
    help="Whether resources leave clusters with NoExecute taints that their policies do not tolerate.",
)
@click.option(
    "--eviction-timeout",
    "eviction_timeout_s",
    type=options.Duration(),
    default="10m",
    show_default=True,
    help="How long what leaves a cluster waits for a healthy successor.",
)
def up(
    *,
    data: Path,
    store_url: str | None,
    port: int | None,
    every_s: float,
    threshold_s: float,
    taint_eviction: str,
    eviction_timeout_s: float,
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
        alone=not store_url,
        every_s=every_s,
        threshold_s=threshold_s,
        evict_tainted=taint_eviction == "on",
        eviction_timeout_s=eviction_timeout_s,
        ready=_ready,
    )
    click.echo("The federation has stopped.")


def _ready(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        click.echo(f"{name:>9}  {fact}")
    click.echo("The federation is up. Ctrl-C stops it; the data stays.")
    click.echo(f"Try: export KUBECONFIG={shlex.quote(facts['config'])}")
    click.echo("     rota federation join NAME --member KUBECONFIG")


@command.command(
    "join",
    cls=Command,
    examples=[
        ("rota federation join m1 --member ./m1/kubeconfig", "a cluster on this machine"),
        ("rota federation join m2 --member m2.yaml --region eu --zone eu-1 --label tier=gold", "with properties"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--member",
    "kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="KUBECONFIG",
    help="The kubeconfig of the member's administrator; an encrypted copy is stored.",
)
@click.option("--provider", default="", help="Provider of the cluster.")
@click.option("--region", default="", help="Region of the cluster.")
@click.option("--zone", "zones", multiple=True, help="Zone of the cluster; repeatable.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@output.json_option
@endpoints.server_options
def join(
    *,
    name: str,
    kubeconfig: Path,
    provider: str,
    region: str,
    zones: tuple[str, ...],
    labels: tuple[str, ...],
    as_json: bool,
    **server: Any,
) -> None:
    """Add a member cluster to the federation, in push mode."""
    from rota.cli.commands import federation_clusters as commands  # noqa: PLC0415 - not needed to refuse an option

    properties = {"provider": provider, "region": region, "zones": list(zones)}
    commands.join(name, kubeconfig, properties, labels, as_json=as_json, **server)


@command.command(
    "unjoin",
    cls=Command,
    examples=[("rota federation unjoin m1", "move its replicas to other members, and remove the cluster")],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--timeout",
    "timeout_s",
    type=options.Duration(nothing="do not wait"),
    default="2m",
    show_default=True,
    help="Maximum time to wait until it is removed; 0: do not wait.",
)
@output.json_option
@endpoints.server_options
def unjoin(*, name: str, timeout_s: float, as_json: bool, **server: Any) -> None:
    """Remove a member cluster: its resources are deleted there, and divided replicas move to other clusters."""
    from rota.cli.commands import federation_clusters as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.unjoin(name, timeout_s=timeout_s, as_json=as_json, **server)


@command.command(
    "clusters", cls=Command, examples=[("rota federation clusters", "all member clusters and their status")]
)
@output.json_option
@endpoints.server_options
def clusters(*, as_json: bool, **server: Any) -> None:
    """List the member clusters of the federation."""
    from rota.cli.commands import federation_clusters as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.clusters(as_json=as_json, **server)


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
