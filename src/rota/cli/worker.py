"""`rota worker`: this machine works for a cluster whose masters are elsewhere."""

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
#: The kubelet's.
_PORT: Final = 10_250
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def _pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`a=1,b=2`, once or several times."""
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
            "join, as 'rota token create' at a master prints it",
        ),
        ("rota worker", "go on after a restart: what was needed is in the data folder"),
        ("rota worker --join m1,m2,m3 --token ... --ca-hash ...", "know several masters, and use whichever answers"),
        ("rota worker ... --labels disk=ssd --taints gpu=yes:NoSchedule", "say what kind of machine this is"),
        ("rota worker ... --resources cpu=4,memory=8Gi,example.com/gpu=2", "offer so much instead of what is found"),
        ("rota worker ... --runtime container", "run containers in their images, not as processes of this machine"),
        ("rota worker --kubeconfig FILE", "join any Kubernetes cluster, with credentials for it"),
    ],
)
@click.option("--join", "masters", multiple=True, metavar="URL[,URL...]", help="The masters; any that answers will do.")
@click.option("--token", default="", envvar="ROTA_TOKEN", show_envvar=True, help="What 'rota token create' has made.")
@click.option(
    "--ca-hash",
    default="",
    callback=_hash,
    metavar="sha256:...",
    help="How to know the masters: their authority's hash.",
)
@click.option("--ca", "authority", type=_FILE, metavar="FILE", help="The same, by the authority's certificate.")
@click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=_FILE,
    metavar="FILE",
    help="Join with the credentials of this file, instead of a token.",
)
@click.option("--name", default=_host_name, callback=_name, show_default="the machine's", help="The name of the node.")
@click.option("--labels", multiple=True, callback=_pairs, metavar="KEY=VALUE,...", help="Labels of the node.")
@click.option(
    "--taints",
    multiple=True,
    callback=_taints,
    metavar="KEY[=VALUE]:EFFECT,...",
    help="Taints that the node is registered with.",
)
@click.option(
    "--resources",
    "amounts",
    multiple=True,
    callback=_amounts,
    metavar="NAME=AMOUNT,...",
    help="What to offer.  [default: what the machine has, less a reserve]",
)
@click.option(
    "--lease",
    "lease_s",
    type=click.IntRange(2, 40),
    default=40,
    show_default=True,
    metavar="SECONDS",
    help="How long masters believe in this worker after they last heard of it.",
)
@click.option(
    "--reserve",
    multiple=True,
    callback=_amounts,
    metavar="NAME=AMOUNT,...",
    help="What to keep back for the machine itself.  [default: a twentieth of memory and storage]",
)
@click.option(
    "--pids",
    type=click.IntRange(min=1, max=4_194_304),
    metavar="COUNT",
    help="How many processes a container may have.  [default: any number]",
)
@click.option(
    "--runtime",
    type=click.Choice(["process", "container"]),
    default="process",
    show_default=True,
    help="How containers run whose pods have no runtimeClassName.",
)
@click.option(
    "--services",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether tasks here reach services by name and address; listens on loopback.",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Where images for containers lie.  [default: images in the data folder]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the worker's files lie; made if missing.  [default: nodes/NAME in $ROTA_HOME or the platform's folder]",
)
@click.option(
    "--address",
    default="",
    metavar="ADDRESS",
    help="By which masters reach this machine.  [default: the one that it reaches them by]",
)
@click.option(
    "--port",
    type=master_options.PORT,
    default=_PORT,
    show_default=True,
    metavar="PORT",
    help="Where masters reach the worker for logs and commands; 0 for a free one.",
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
    **node: Any,
) -> None:
    """Let this machine work for a cluster until interrupted.

    The first start needs a token and a way to know the masters, or a kubeconfig. The worker then has a certificate of
    its own, which it keeps in its folder and renews, and needs neither again. Tasks go on while the worker is stopped;
    the next start finds them.
    """
    # What it takes to work is not needed to refuse an option.
    from rota import assembly  # noqa: PLC0415
    from rota.worker import identities  # noqa: PLC0415
    from rota.worker.cluster_join.join import Invitation  # noqa: PLC0415
    from rota.worker.worker_assembly import Settings  # noqa: PLC0415

    logs.configure(level="warning")
    if kubeconfig_file is not None and (masters or token or ca_hash or authority):
        raise click.UsageError("--kubeconfig stands for --join, --token, --ca-hash and --ca")
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
        **user,
        **node,
    )

    def say_ready(server: str) -> None:
        click.echo(f"     node  {name}")
        click.echo(f"   master  {server}")
        click.echo(f"     data  {folder}")
        click.echo(f"This worker is ready (process {os.getpid()}). Ctrl-C stops it; its tasks go on.")

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
