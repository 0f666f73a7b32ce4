"""`rota worker`: run this machine as a worker of a cluster."""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rota.api import names, quantities, resources
from rota.cli import master_options, options
from rota.cli.command_types import Command
from rota.kit import errors, logs

if TYPE_CHECKING:
    from rota.client.endpoints import Endpoint

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
#: The kubelet's port.
_PORT: Final = 10_250
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def _pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse `a=1,b=2`, given once or several times."""
    found: dict[str, str] = {}
    for one in _listed(given):
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{one!r} is not KEY=VALUE")
        found[key] = value
    return found


def _amounts(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for name, text in _pairs(ctx, parameter, given).items():
        try:
            found[name] = resources.amount(name, text)
        except quantities.QuantityError:
            raise click.BadParameter(f"{text!r} is no amount of {name}; write 4, 500m or 8Gi") from None
        if found[name] < 0:
            raise click.BadParameter(f"{name} cannot be less than nothing")
    return found


def _taints(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[dict[str, str]]:
    found = []
    for one in _listed(given):
        rest, colon, effect = one.rpartition(":")
        key, _equals, value = rest.partition("=")
        if not colon or not key or effect not in _EFFECTS:
            raise click.BadParameter(f"{one!r} is not KEY[=VALUE]:EFFECT, with one of {', '.join(_EFFECTS)}")
        found.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return found


def _hash(_: click.Context, __: click.Parameter, given: str) -> str:
    if given and not _HASH.fullmatch(given):
        raise click.BadParameter("it is sha256: and 64 hexadecimal digits, as 'rota token create' prints it")
    return given


def _name(_: click.Context, __: click.Parameter, given: str) -> str:
    if names.check_dns1123_subdomain(given):
        raise click.BadParameter(f"{given!r} is no name for a node: small letters, digits, '-' and '.' only")
    return given


def _listed(given: tuple[str, ...]) -> list[str]:
    return [one for text in given for one in text.split(",") if one]


def _host_name() -> str:
    return re.sub(r"[^a-z0-9.-]", "-", socket.gethostname().lower()).strip("-.") or "worker"


@click.command(
    "worker",
    cls=Command,
    examples=[
        (
            "rota worker --join https://10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:...",
            "join; 'rota token create' on a master prints this command",
        ),
        ("rota worker", "start again: the credentials are in the data folder"),
        ("rota worker --join m1,m2,m3 --token ... --ca-hash ...", "join one of several masters"),
        ("rota worker ... --labels disk=ssd --taints gpu=yes:NoSchedule", "with labels and taints"),
        (
            "rota worker ... --resources cpu=4,memory=8Gi,example.com/gpu=2",
            "with these resources instead of the detected ones",
        ),
        ("rota worker ... --runtime container", "run pods as containers from images, not as processes"),
        ("rota worker ... --batch-ceiling 90", "sell capacity that pods do not use to batch pods"),
        ("rota worker --kubeconfig FILE", "join any Kubernetes cluster with these credentials"),
    ],
)
@click.option(
    "--join", "masters", multiple=True, metavar="URL[,URL...]", help="URLs of masters; one reachable master is enough."
)
@click.option(
    "--token", default="", envvar="ROTA_TOKEN", show_envvar=True, help="The join token from 'rota token create'."
)
@click.option(
    "--ca-hash",
    default="",
    callback=_hash,
    metavar="sha256:...",
    help="Hash of the cluster CA's public key, to verify the masters.",
)
@click.option(
    "--ca", "authority", type=_FILE, metavar="FILE", help="Certificate of the cluster CA, to verify the masters."
)
@click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=_FILE,
    metavar="FILE",
    help="Join with the credentials of this file instead of a token.",
)
@click.option("--name", default=_host_name, callback=_name, show_default="the host name", help="Name of the node.")
@click.option("--labels", multiple=True, callback=_pairs, metavar="KEY=VALUE,...", help="Labels of the node.")
@click.option(
    "--taints",
    multiple=True,
    callback=_taints,
    metavar="KEY[=VALUE]:EFFECT,...",
    help="Taints to register the node with.",
)
@click.option(
    "--resources",
    "amounts",
    multiple=True,
    callback=_amounts,
    metavar="NAME=AMOUNT,...",
    help="Capacity of the node.  [default: the machine's capacity minus the reserve]",
)
@click.option(
    "--lease",
    "lease_s",
    type=click.IntRange(2, 40),
    default=40,
    show_default=True,
    metavar="SECONDS",
    help="Duration of the node's lease: without renewal the node is NotReady after this time.",
)
@click.option(
    "--reserve",
    multiple=True,
    callback=_amounts,
    metavar="NAME=AMOUNT,...",
    help="Resources reserved for the system.  [default: a twentieth of memory and storage]",
)
@click.option(
    "--pids",
    type=click.IntRange(min=1, max=4_194_304),
    metavar="COUNT",
    help="Maximum number of processes of a container.  [default: no limit]",
)
@click.option(
    "--runtime",
    type=click.Choice(["process", "container"]),
    default="process",
    show_default=True,
    help="Runtime of pods without a runtimeClassName.",
)
@click.option(
    "--batch-ceiling",
    type=click.FloatRange(1, 100),
    metavar="PERCENT",
    help="Sell what the forecast leaves below this part of the machine to batch pods, as rota.dev/batch-cpu and "
    "rota.dev/batch-memory.  [default: nothing is sold]",
)
@click.option(
    "--forecast-warm-up",
    "forecast_warm_up_s",
    type=click.FloatRange(min=0),
    default=7200.0,
    show_default=True,
    metavar="SECONDS",
    help="Until then the forecast of the node is what its pods request.",
)
@click.option(
    "--services",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether to serve Services to tasks here, by name and address, on loopback.",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Folder of container images.  [default: images in the data folder]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the worker's files; created if missing.  [default: nodes/NAME in the data folder]",
)
@click.option(
    "--address",
    default="",
    metavar="ADDRESS",
    help="Address for connections from masters.  [default: the local address of its connection to them]",
)
@click.option(
    "--port",
    type=master_options.PORT,
    default=_PORT,
    show_default=True,
    metavar="PORT",
    help="Port for logs and exec requests from masters; 0 for a free one.",
)
@options.task_user_options
def command(
    *,
    masters: tuple[str, ...],
    token: str,
    ca_hash: str,
    authority: Path | None,
    kubeconfig_file: Path | None,
    name: str,
    data: Path | None,
    port: int,
    amounts: dict[str, int],
    run_as: str,
    allow_root: bool,
    services: str,
    batch_ceiling: float | None,
    **node: Any,
) -> None:
    """Run this machine as a worker of a cluster until interrupted.

    The first start needs a token and a CA hash or certificate, or a kubeconfig. The worker gets a certificate of its
    own, keeps it in its data folder and renews it. Tasks keep running while the worker is stopped; the next start finds
    them again.
    """
    # Imported late: not needed to refuse an option.
    from rota import assembly  # noqa: PLC0415
    from rota.worker import identities  # noqa: PLC0415
    from rota.worker.cluster_join.join import Invitation  # noqa: PLC0415
    from rota.worker.worker_assembly import Settings  # noqa: PLC0415

    logs.configure(level="warning")
    if kubeconfig_file is not None and (masters or token or ca_hash or authority):
        raise click.UsageError("--kubeconfig replaces --join, --token, --ca-hash and --ca; give one or the other")
    folder = (data or options.data_folder() / "nodes" / name).absolute()
    invitation = Invitation(
        servers=tuple(_listed(masters)),
        token=token,
        authority_hash=ca_hash,
        authority=None if authority is None else _read(authority),
        endpoint=None if kubeconfig_file is None else _endpoint(kubeconfig_file),
    )
    user = identities.tasks(run_as, allow_root=allow_root, own=(folder,))
    settings = Settings(
        node=name,
        folder=options.made_folder(folder),
        resources=amounts,
        services=services == "on",
        forecasts=True,
        batch_ceiling=None if batch_ceiling is None else batch_ceiling / 100,
        **user,
        **node,
    )

    def say_ready(server: str) -> None:
        click.echo(f"     node  {name}")
        click.echo(f"   master  {server}")
        click.echo(f"     data  {folder}")
        click.echo(f"This worker is ready (process {os.getpid()}). Ctrl-C stops it; its tasks keep running.")

    assembly.run(assembly.run_worker(settings, invitation, port=port, ready=say_ready))
    click.echo("The worker has stopped.")


def _endpoint(path: Path) -> "Endpoint":
    from rota.client import kubeconfig  # noqa: PLC0415
    from rota.kit import system  # noqa: PLC0415

    if not path.exists():
        remedy = "name the file that leads to the cluster, or join with --join, --token and --ca-hash"
        raise errors.UserError(f"there is no kubeconfig at {path}", remedy)
    return kubeconfig.load(path, clock=system.SystemClock())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise errors.UserError(f"cannot read {path}: {problem.strerror}", "name the file of a certificate") from None
