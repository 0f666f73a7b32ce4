"""`rota federation`: commands on member clusters: join, token, register, unjoin, clusters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command

_F = TypeVar("_F", bound=Callable[..., Any])


def add_to(group: click.Group) -> None:
    """Add the commands to the group `federation`."""
    for one in (join, token, register, unjoin, clusters):
        group.add_command(one)


def _property_options(command: _F) -> _F:
    """Add the options for the properties of a cluster that policies select by."""
    for option in (
        click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; repeatable."),
        click.option("--zone", "zones", multiple=True, help="Zone of the cluster; repeatable."),
        click.option("--region", default="", help="Region of the cluster."),
        click.option("--provider", default="", help="Provider of the cluster."),
    ):
        command = option(command)
    return command


@click.command(
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
@_property_options
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


@click.command(
    "token",
    cls=Command,
    examples=[
        ("rota federation token m3 > m3.invitation", "register a pull member, and write the file for its agent"),
        ("rota federation token m3 --region eu --ttl 10m > m3.invitation", "with properties, valid for ten minutes"),
    ],
)
@click.argument("name", metavar="NAME")
@_property_options
@options.duration_option("--ttl", "1h", "How long the invitation can be used; 10 minutes at least.")
@endpoints.server_options
def token(
    *,
    name: str,
    provider: str,
    region: str,
    zones: tuple[str, ...],
    labels: tuple[str, ...],
    ttl_s: float,
    **server: Any,
) -> None:
    """Register a member in pull mode, and print an invitation for its agent: a kubeconfig with a token.

    The agent may read and write what concerns its own cluster and nothing else. Give the file to
    `rota federation register` in the member. Call this again for a new invitation of the same member.
    """
    from rota.cli.commands import federation_agents as commands  # noqa: PLC0415 - not needed to refuse an option

    properties = {"provider": provider, "region": region, "zones": list(zones)}
    commands.invite(name, properties, labels, ttl_s=ttl_s, **server)


@click.command(
    "register",
    cls=Command,
    examples=[
        ("rota federation register m3 --invitation m3.invitation --data ./agent", "for the cluster of $KUBECONFIG"),
        ("rota federation-agent --data ./agent", "then run the agent"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--invitation",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="What `rota federation token` printed.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Folder for the agent's credentials; created if missing, readable by its owner only.",
)
@click.option(
    "--control-plane",
    default="",
    metavar="URL",
    help="Address of the control plane as the member reaches it.  [default: that of the invitation]",
)
@output.json_option
@endpoints.own_options
def register(*, name: str, invitation: Path, data: Path, control_plane: str, as_json: bool, **server: Any) -> None:
    """Prepare the agent of a pull member: exchange an invitation for credentials that the agent renews.

    Run this in the member; its kubeconfig must contain the credentials, which are copied to the agent's folder.
    """
    from rota.cli.commands import federation_agents as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.register(name, invitation, data.absolute(), control_plane, as_json=as_json, **server)


@click.command(
    "unjoin",
    cls=Command,
    examples=[("rota federation unjoin m1", "move its replicas to other members, and remove the cluster")],
)
@click.argument("name", metavar="NAME")
@options.duration_option(
    "--timeout", "2m", "Maximum time to wait until it is removed; 0: do not wait.", nothing="do not wait"
)
@output.json_option
@endpoints.server_options
def unjoin(*, name: str, timeout_s: float, as_json: bool, **server: Any) -> None:
    """Remove a member cluster: its resources are deleted there, and divided replicas move to other clusters."""
    from rota.cli.commands import federation_clusters as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.unjoin(name, timeout_s=timeout_s, as_json=as_json, **server)


@click.command("clusters", cls=Command, examples=[("rota federation clusters", "all member clusters and their status")])
@output.json_option
@endpoints.server_options
def clusters(*, as_json: bool, **server: Any) -> None:
    """List the member clusters of the federation."""
    from rota.cli.commands import federation_clusters as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.clusters(as_json=as_json, **server)
