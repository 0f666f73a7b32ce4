"""`rota monitoring setup`: the account of Prometheus in a cluster, and a folder with its configuration."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import click
import yaml

from rota.api import errors
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.cli.commands.cordon import NODES
from rota.client import masters
from rota.client.endpoints import Endpoint
from rota.client.paths import Target
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.monitoring import grafana, rule_files, scraping
from rota.monitoring.dashboards import DASHBOARDS
from rota.pki import files

#: Workers are listed in a file; otherwise Prometheus finds them by the API.
FILE: Final = "file"
_WORKERS: Final = "workers.json"
_LOOK_S: Final = 10.0
_TARGETS: Final[dict[str, Target]] = {
    "ServiceAccount": ("", "v1", "serviceaccounts"),
    "ClusterRole": ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
}


def write(
    *,
    folder: Path,
    runbooks: str,
    alertmanagers: tuple[str, ...],
    backups: tuple[str, ...],
    ttl: float,
    interval: int,
    discovery: str,
    follow: bool,
    as_json: bool,
    **server: Any,
) -> None:
    """Create the account and write the folder."""
    if follow and discovery != FILE:
        raise click.UsageError("--follow goes with --discovery file")
    endpoint = endpoints.nearest(**server)
    if endpoint.certificate_authority is None:
        raise UserError(f"{endpoint.server} has no CA of its own, so a token is not safe", "use its https:// address")

    async def ask(client: Client) -> tuple[str, list[str], list[Any]]:
        nodes = await client.list(NODES)
        return await _token(client, ttl), await _masters(client, endpoint), scraping.targets(nodes.items)

    token, servers, workers = session.at(endpoint, ask)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_private(folder / "token", token.encode())
    (folder / "ca.crt").write_bytes(endpoint.certificate_authority)
    configuration = scraping.configuration(
        servers,
        token_file="token",  # noqa: S106 - a file name
        ca_file="ca.crt",
        alertmanagers=alertmanagers,
        interval_s=interval,
        workers_file=_WORKERS if discovery == FILE else "",
        backups=backups,
    )
    if discovery == FILE:
        _replace(folder / _WORKERS, workers)
    write_yaml(folder / "prometheus.yml", configuration)
    write_yaml(folder / "rules.yaml", rule_files.rules(runbooks=runbooks))
    write_yaml(folder / "alertmanager-inhibitions.yaml", {"inhibit_rules": rule_files.inhibitions()})
    write_dashboards(folder / "dashboards")
    if as_json:
        output.document({"folder": str(folder), "masters": servers})
    else:
        click.echo(f"Prometheus' configuration for {', '.join(servers)} is in {folder}.")
    if follow:
        session.at(endpoint, lambda client: _follow(client, folder / _WORKERS, workers))


async def _follow(client: Client, file: Path, written: list[Any]) -> None:
    """Keep the file in step with the nodes until a signal."""
    clock = system.SystemClock()
    while True:
        await clock.sleep(_LOOK_S)
        try:
            found = scraping.targets((await client.list(NODES)).items)
        except (errors.ApiError, TransportError):
            continue  # the workers that are known stay
        if found != written:
            await asyncio.to_thread(_replace, file, found)
            written = found


def _replace(file: Path, document: list[Any]) -> None:
    """Prometheus reads the file whenever it changes, so it must be whole at any moment."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=2) + "\n")
    fresh.replace(file)


def write_dashboards(folder: Path) -> list[Path]:
    """Write a file for each dashboard; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for one in DASHBOARDS:
        file = folder / f"{one.uid}.json"
        file.write_text(json.dumps(grafana.document(one), indent=2) + "\n")
        written.append(file)
    return written


def write_yaml(file: Path, document: dict[str, Any]) -> None:
    """Write a document for Prometheus or Alertmanager."""
    file.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


async def _token(client: Client, ttl_s: float) -> str:
    for one in scraping.RIGHTS:
        target = _TARGETS[one["kind"]]
        try:
            await client.create(target, one)
        except errors.AlreadyExists:
            continue
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": round(ttl_s)},
    }
    made = await client.create(
        _TARGETS["ServiceAccount"],
        request,
        namespace=scraping.NAMESPACE,
        name=scraping.ACCOUNT,
        subresource="token",
    )
    return str(made["status"]["token"])


async def _masters(client: Client, endpoint: Endpoint) -> list[str]:
    """The masters that run; the one that answered, if none is registered."""
    now = system.SystemClock().now()
    return [one.address for one in await masters.listed(client) if one.is_current(now)] or [endpoint.server]
