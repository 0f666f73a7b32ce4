"""`rota federation`: many clusters as one, by Karmada's policies."""

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
        ("rota federation up --data ./federation", "start a control plane; Ctrl-C stops it, the data stays"),
        ("rota federation join m1 --member ./m1/kubeconfig", "take a cluster in, by its kubeconfig"),
        ("rota federation clusters", "which clusters there are, and how they are"),
        ("rota federation decide < scenarios.jsonl", "what would be decided, without any cluster"),
    ],
)
def command() -> None:
    """Run many clusters as one, by Karmada's policies (policy.karmada.io, work.karmada.io, cluster.karmada.io).

    A control plane holds resources and policies, and brings each resource to the member clusters that its policy
    chooses. Members are clusters of `rota up` or any Kubernetes; the control plane calls them (push).
    """


@command.command(
    "up",
    cls=Command,
    examples=[
        ("rota federation up --data ./federation", "start; Ctrl-C stops it, the data stays"),
        ("rota federation up --data ./federation --port 7443", "fail if that port is taken, instead of using the next"),
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where the federation's data lies; made if missing.",
)
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="ROTA_FEDERATION_STORE",
    show_envvar=True,
    help="Use this store instead of a file in the data folder.",
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
    help="How often members are asked how they are.",
)
@click.option(
    "--threshold",
    "threshold_s",
    type=options.Duration(nothing="at once"),
    default="30s",
    show_default=True,
    help="For how long a member must be well or ill before that counts; 0: at once.",
)
def up(*, data: Path, store_url: str | None, port: int | None, every_s: float, threshold_s: float) -> None:
    """Start the control plane of a federation on this machine and run until interrupted.

    It is a master without scheduler, workers and workload controllers: what it holds runs in member clusters. The
    kubeconfig of its administrator is written into the data folder.
    """
    from rota.cli.commands import federation_start as acts  # noqa: PLC0415 - servers are not needed to refuse an option

    logs.configure(level="warning")
    folder = options.made_folder(data.absolute())
    url = store_url or options.sqlite_url(folder / "rota.db")
    acts.up(url, folder, port=port, alone=not store_url, every_s=every_s, threshold_s=threshold_s, ready=_ready)
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
    help="The kubeconfig of the member's administrator; a copy is kept, sealed.",
)
@click.option("--provider", default="", help="Who provides the cluster.")
@click.option("--region", default="", help="The region it is in.")
@click.option("--zone", "zones", multiple=True, help="A zone it is in; repeatable.")
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
    """Take a cluster into the federation, which calls it from then on (push)."""
    from rota.cli.commands import federation_clusters as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    properties = {"provider": provider, "region": region, "zones": list(zones)}
    acts.join(name, kubeconfig, properties, labels, as_json=as_json, **server)


@command.command(
    "unjoin",
    cls=Command,
    examples=[("rota federation unjoin m1", "move what it has elsewhere, remove it there, and forget the cluster")],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--timeout",
    "timeout_s",
    type=options.Duration(nothing="do not wait"),
    default="2m",
    show_default=True,
    help="How long to wait until it is gone; 0: do not wait.",
)
@output.json_option
@endpoints.server_options
def unjoin(*, name: str, timeout_s: float, as_json: bool, **server: Any) -> None:
    """Let a cluster go: what the federation has there is removed, and divided replicas move to other clusters."""
    from rota.cli.commands import federation_clusters as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.unjoin(name, timeout_s=timeout_s, as_json=as_json, **server)


@command.command("clusters", cls=Command, examples=[("rota federation clusters", "which there are, and how they are")])
@output.json_option
@endpoints.server_options
def clusters(*, as_json: bool, **server: Any) -> None:
    """List the clusters of the federation."""
    from rota.cli.commands import federation_clusters as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.clusters(as_json=as_json, **server)


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
    from rota.cli.commands import federation_scenarios as acts  # noqa: PLC0415 - not needed to refuse an option

    if not acts.decide(files):
        ctx.exit(UNDECIDED)
