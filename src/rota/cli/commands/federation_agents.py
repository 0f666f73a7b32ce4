"""`rota federation token` and `register`: invite a pull member, and prepare its agent."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from rota.api import errors, meta
from rota.cli import endpoints
from rota.cli.commands import federation_clusters, session
from rota.client import client_factory, kubeconfig
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client
from rota.federation import kinds
from rota.federation.control import pull_members
from rota.federation.member import agent
from rota.kit import system
from rota.kit.errors import UserError

_LOOK_AGAIN_S: Final = 0.2
_PATIENCE_S: Final = 60.0


def invite(name: str, properties: Mapping[str, Any], labels: Sequence[str], *, ttl_s: float, **server: Any) -> None:
    """Create the Cluster if it is missing, and print a kubeconfig of its agent's account."""
    spec = {"syncMode": "Pull", **{key: value for key, value in properties.items() if value}}
    wanted = federation_clusters.cluster_object(name, spec, labels)
    endpoint = endpoints.chosen(**server)
    clock = system.SystemClock()

    async def work(client: Client) -> str:
        try:
            present = await client.get(kinds.CLUSTERS, name)
        except errors.NotFound:
            present = await client.create(kinds.CLUSTERS, wanted)
        if not pull_members.is_pull(present) or meta.is_deleting(present):
            raise UserError(f"cluster {name} has joined in push mode, or is leaving", "choose another name")
        deadline = clock.monotonic() + _PATIENCE_S
        while clock.monotonic() < deadline:
            try:
                await client.get(
                    pull_members.ROLE_BINDINGS, pull_members.role_of(name), namespace=kinds.CLUSTER_NAMESPACE
                )
                return str((await agent.request_token(client, name, ttl_s=ttl_s))["token"])
            except errors.NotFound:
                await clock.sleep(_LOOK_AGAIN_S)
        raise UserError(
            f"the control plane has not created the account of cluster {name}", "is rota federation up running?"
        )

    token = session.at(endpoint, work)
    click.echo(_invitation(name, endpoint, token), nl=False)


def _invitation(name: str, endpoint: Endpoint, token: str) -> str:
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.certificate_authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.certificate_authority).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "federation", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": "federation", "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)


def register(name: str, invitation: Path, folder: Path, control_plane: str, *, as_json: bool, **server: Any) -> None:
    """Write the agent's folder, with a token of its own."""
    clock, rng = system.SystemClock(), system.rng()
    invited = kubeconfig.load(invitation, clock=clock)
    control = control_plane or invited.server
    endpoint = Endpoint(
        server=control, certificate_authority=invited.certificate_authority, credentials=invited.credentials
    )
    member = federation_clusters.portable_kubeconfig(endpoints.own_cluster(**server), name, server["kubeconfig_file"])
    agent.save(folder, name, server=control, authority=endpoint.certificate_authority, member=member)

    async def exchange() -> None:
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            try:
                await agent.renew_token(client, name, folder)
            except (errors.Forbidden, errors.Unauthorized) as error:
                raise UserError(
                    f"the invitation is not for cluster {name}, or has expired",
                    f"make another with rota federation token {name}",
                ) from error

    with session.telling(endpoint):
        session.run(exchange())
    federation_clusters.tell(
        {"registered": name, "data": str(folder)},
        f"Cluster {name} is registered. Run its agent: rota federation-agent --data {folder}",
        as_json=as_json,
    )
