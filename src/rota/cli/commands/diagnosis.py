"""`rota doctor`: reads a cluster, checks it (`health_checks`) and shows the findings."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final
from urllib.parse import urlsplit

import click
from prometheus_client.parser import text_string_to_metric_families

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import cluster_status, health_checks, session
from rota.cli.commands.cordon import NODES
from rota.cli.commands.health_checks import Certificate, Finding, Reading
from rota.client import masters
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.verbs import Client, Object
from rota.kit import system
from rota.pki import certificates

_LEASES: Final = ("coordination.k8s.io", "v1", "leases")
_SERVICES: Final = ("", "v1", "services")
_API_SERVICES: Final = ("apiregistration.k8s.io", "v1", "apiservices")
_DEFINITIONS: Final = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_WEBHOOKS: Final = (
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
)
#: Kinds whose deletion is often stuck; custom resources are added.
_DELETABLE: Final = (
    ("", "v1", "namespaces"),
    ("", "v1", "persistentvolumeclaims"),
    ("", "v1", "persistentvolumes"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("batch", "v1", "jobs"),
    _DEFINITIONS,
)
_PATIENCE_S: Final = 3.0
_METRICS: Final = frozenset({"rota_store_history_seconds", "process_open_fds", "process_max_fds"})

Target = tuple[str, str, str]


def examine(*, as_json: bool, **server: Any) -> None:
    """Check a cluster and show what is wrong."""
    endpoint = endpoints.nearest(**server)

    found = health_checks.check(session.at(endpoint, lambda client: read(client, endpoint)))
    if as_json:
        output.document({"healthy": not _errors(found), "findings": [asdict(one) for one in found]})
    else:
        _show(found)
    if _errors(found):
        raise click.exceptions.Exit(1)


async def read(client: Client, endpoint: Endpoint) -> Reading:
    """Read what the checks need of a cluster."""
    return await _Reader(client, endpoint).read()


def all_masters(endpoint: Endpoint, leases: Sequence[Object]) -> Endpoint:
    """The endpoint with the masters that Leases name.

    Without a check of certificates, a Lease with a wrong address would be enough to get the user's token. Then only
    addresses that the user gave are called.
    """
    if endpoint.insecure_skip_tls_verify:
        return endpoint
    listed = [one.address for lease in leases if (one := masters.read(lease)) is not None]
    return replace(endpoint, fallbacks=tuple(dict.fromkeys((*endpoint.fallbacks, *listed))))


class _Reader:
    """Reads a cluster; what the user may not read is left out and reported."""

    def __init__(self, client: Client, endpoint: Endpoint) -> None:
        self._client: Final = client
        self._endpoint: Final = endpoint
        self._unread: Final[dict[str, str]] = {}

    async def read(self) -> Reading:
        leases = await self._list(_LEASES, namespace="kube-system")
        leases += await self._list(_LEASES, namespace="kube-node-lease")
        servers = {one.server: one for one in all_masters(self._endpoint, leases).each()}
        faults = await asyncio.gather(*map(cluster_status.health_fault, servers.values()))
        pods = await self._list(PODS)
        webhooks = [
            {"kind": target[2], **one} for target in _WEBHOOKS for one in await self._list(target, optional=True)
        ]
        services = await self._list(_SERVICES) if webhooks else []
        return Reading(
            now=system.SystemClock().now(),
            masters=dict(zip(servers, faults, strict=True)),
            certificates=await self._certificates(servers),
            nodes=await self._list(NODES),
            pods=pods,
            leases=leases,
            deleting=await self._deleting(pods),
            webhooks=webhooks,
            services=frozenset(meta.qualified_name(one) for one in services),
            api_services=await self._list(_API_SERVICES, optional=True),
            metrics=await self._metrics(),
            unread=dict(self._unread),
        )

    async def _list(self, target: Target, *, namespace: str = "", optional: bool = False) -> list[Object]:
        try:
            return list((await self._client.list(target, namespace=namespace)).items)
        except api_errors.NotFound:
            if optional:
                return []
            raise
        except api_errors.Forbidden as problem:
            self._unread[target[2]] = str(problem)
            return []

    async def _deleting(self, pods: list[Object]) -> dict[str, Object]:
        found = {f"pod/{meta.qualified_name(one)}": one for one in pods if meta.is_deleting(one)}
        targets: list[Target] = list(_DELETABLE)
        for definition in await self._list(_DEFINITIONS, optional=True):
            spec = definition["spec"]
            version = next((one["name"] for one in spec["versions"] if one.get("served")), None)
            if version is not None:
                targets.append((spec["group"], version, spec["names"]["plural"]))
        for target in targets:
            for one in await self._list(target, optional=True):
                if meta.is_deleting(one):
                    found[f"{target[2].removesuffix('s')}/{meta.qualified_name(one)}"] = one
        return found

    async def _metrics(self) -> dict[str, float]:
        try:
            text = (await self._client.request("GET", "/metrics", accept="*/*")).decode()
        except api_errors.ApiError as problem:
            self._unread["metrics"] = str(problem)
            return {}
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        return {one.name: one.value for one in samples if one.name in _METRICS}

    async def _certificates(self, servers: Mapping[str, Endpoint]) -> list[Certificate]:
        found = []
        if self._endpoint.client_certificate is not None:
            found.append(_described("this user", self._endpoint.client_certificate))
        for server, endpoint in servers.items():
            shown = await _server_certificate(endpoint)
            if shown is not None:
                found.append(_described(server, shown))
        return found


def _described(subject: str, pem: bytes) -> Certificate:
    facts = certificates.facts(certificates.read_pem(pem, source=subject))
    return Certificate(subject, facts.not_before, facts.not_after)


async def _server_certificate(endpoint: Endpoint) -> bytes | None:
    """The certificate that a server shows, valid or not; None over plain HTTP and from a server that is down."""
    parts = urlsplit(endpoint.server)
    if parts.scheme != "https":
        return None
    address = (parts.hostname or "", parts.port or 443)
    try:
        pem = await asyncio.to_thread(ssl.get_server_certificate, address, timeout=_PATIENCE_S)
    except (OSError, TimeoutError):
        return None
    return pem.encode()


def _errors(found: list[Finding]) -> int:
    return sum(one.severity == "error" for one in found)


def _show(found: list[Finding]) -> None:
    for one in found:
        colour = "red" if one.severity == "error" else "yellow"
        click.echo(f"{output.painted(one.severity, fg=colour)}: {output.printable(one.problem)}")
        click.echo(f"  {output.printable(one.remedy)}")
    errors, warnings = _errors(found), len(found) - _errors(found)
    click.echo(f"{errors} errors, {warnings} warnings" if found else "Nothing wrong was found.")
