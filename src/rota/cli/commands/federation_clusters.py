"""`rota federation join`, `unjoin` and `clusters`: register, remove and list member clusters."""

import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rota.api import errors, meta, names
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.member import connections
from rota.kit import system
from rota.kit.errors import UserError

_LOOK_AGAIN_S: Final = 0.2


def join(
    name: str,
    member: Path,
    properties: Mapping[str, Any],
    labels: Sequence[str],
    *,
    as_json: bool,
    **server: Any,
) -> None:
    """Create the Cluster, and the Secret with its credentials."""
    endpoint = kubeconfig.load(member, clock=system.SystemClock())
    text = portable_kubeconfig(endpoint, name, member)
    spec = {
        "syncMode": "Push",
        "apiEndpoint": endpoint.server,
        "secretRef": {"namespace": kinds.CLUSTER_NAMESPACE, "name": name},
        **{member_name: value for member_name, value in properties.items() if value},
    }
    cluster = cluster_object(name, spec, labels)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": kinds.CLUSTER_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(text).decode()},
    }

    async def work(client: Client) -> None:
        try:
            await client.get(kinds.CLUSTERS, name)
        except errors.NotFound:
            await client.apply(kinds.SECRETS, secret, force=True)
            await client.create(kinds.CLUSTERS, cluster)
            return
        raise UserError(f"there is a cluster {name} already", f"choose another name, or rota federation unjoin {name}")

    at(server, work)
    tell({"joined": name}, f"Cluster {name} has joined.", as_json=as_json)


def cluster_object(name: str, spec: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """A Cluster; `UserError` if its name or a label is not allowed."""
    problems = names.check_dns1123_label(name)
    if problems:
        raise UserError(f"{name!r} cannot be the name of a cluster: {problems[0]}", "choose another name")
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": dict(_label(one) for one in labels)},
        "spec": dict(spec),
    }


def portable_kubeconfig(endpoint: Endpoint, name: str, file: Path | None) -> bytes:
    """A kubeconfig that contains all of its credentials: made of certificates, or else the file as it is."""
    text = kubeconfig.render(endpoint, name=name)
    if connections.load(text, clock=system.SystemClock()).client_certificate is not None:
        return text
    # It authenticates by another method than a certificate, which the file must contain.
    return (file or kubeconfig.default_path(os.environ)).read_bytes()


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    problems = [*names.check_label_key(key), *names.check_label_value(value)] if equals else ["it has no ="]
    if problems:
        raise UserError(f"{text!r} is no label: {problems[0]}", "write it like tier=gold")
    return key, value


def unjoin(name: str, *, timeout_s: float, as_json: bool, **server: Any) -> None:
    """Delete the Cluster, and wait until it is gone."""
    clock = system.SystemClock()

    async def work(client: Client) -> bool:
        try:
            await client.delete(kinds.CLUSTERS, name)
        except errors.NotFound as error:
            raise UserError(f"there is no cluster {name}", "see rota federation clusters") from error
        deadline = clock.monotonic() + timeout_s
        while clock.monotonic() < deadline:
            try:
                await client.get(kinds.CLUSTERS, name)
            except errors.NotFound:
                return True
            await clock.sleep(_LOOK_AGAIN_S)
        return False

    gone = at(server, work)
    if not gone and timeout_s:
        raise UserError(
            f"cluster {name} has not let go of everything within {timeout_s:.0f} s",
            "it goes on; look with rota federation clusters",
        )
    tell({"unjoined": name, "gone": gone}, f"Cluster {name} has left.", as_json=as_json)


def clusters(*, as_json: bool, **server: Any) -> None:
    """List clusters."""

    async def work(client: Client) -> list[Object]:
        return (await client.list(kinds.CLUSTERS)).items

    found = sorted(at(server, work), key=meta.name)
    rows = [_row(cluster) for cluster in found]
    if as_json:
        output.document(
            [dict(zip(("name", "ready", "version", "nodes", "region", "taints"), row, strict=True)) for row in rows]
        )
        return
    output.table(["NAME", "READY", "VERSION", "NODES", "REGION", "TAINTS"], rows)


def _row(cluster: Object) -> list[str]:
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    nodes: Object = status.get("nodeSummary") or {}
    ready = (meta.condition(cluster, "Ready") or {}).get("status") or "Unknown"
    return [
        meta.name(cluster),
        "Leaving" if meta.is_deleting(cluster) else ready,
        status.get("kubernetesVersion") or "",
        f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}" if nodes else "",
        spec.get("region") or "",
        ",".join(f"{one.get('key')}:{one.get('effect')}" for one in spec.get("taints") or ()),
    ]


_T = TypeVar("_T")


def at(server: Mapping[str, Any], work: Callable[[Client], Awaitable[_T]]) -> _T:
    """Run an operation at the control plane."""
    return session.at(endpoints.chosen(**server), work)


def tell(document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        output.document(dict(document))
    else:
        click.echo(text)
