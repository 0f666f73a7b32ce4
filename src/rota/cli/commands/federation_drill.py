"""`rota federation drill`: predict the failure of a cluster, or rehearse it, and report."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from rota.api import errors, meta, times
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.control.federation import CONFIG_MAPS, SETTINGS
from rota.federation.control.works_loop import binding_of
from rota.federation.failover import drill
from rota.kit import system
from rota.kit.errors import UserError

_LOOK_AGAIN_S: Final = 0.5


def run(cluster: str, *, dry_run: bool, timeout_s: float, keep: bool, as_json: bool, **server: Any) -> bool:
    """Predict or rehearse; whether everything moved."""

    async def work(client: Client) -> tuple[list[drill.Row], dict[str, float]]:
        rows = await _foretold(client, cluster)
        if dry_run:
            return rows, {}
        return rows, await _rehearsed(client, cluster, timeout_s=timeout_s, keep=keep)

    rows, measured = session.at(endpoints.chosen(**server), work)
    _tell(cluster, rows, measured, dry_run=dry_run, as_json=as_json)
    if dry_run:
        return all(row.moves for row in rows)
    return len(measured) == len(rows)


async def _foretold(client: Client, cluster: str) -> list[drill.Row]:
    clusters = (await client.list(kinds.CLUSTERS)).items
    drilled = next((one for one in clusters if meta.name(one) == cluster), None)
    if drilled is None:
        raise UserError(f"there is no cluster {cluster}", "see rota federation clusters")
    works: dict[tuple[str, str], list[Object]] = {}
    for work in (await client.list(kinds.WORKS)).items:
        key = binding_of(work)
        if key is not None:
            works.setdefault((key.namespace, key.name), []).append(work)
    try:
        lease = await client.get(kinds.LEASES, cluster, namespace=kinds.CLUSTER_NAMESPACE)
    except errors.NotFound:
        lease = None
    pace = await _pace(client, (drilled.get("spec") or {}).get("syncMode") or "Push")
    return drill.foretold(await _bindings(client), cluster, clusters, works, lease, pace)


async def _bindings(client: Client) -> list[Object]:
    return [*(await client.list(kinds.BINDINGS)).items, *(await client.list(kinds.CLUSTER_BINDINGS)).items]


async def _pace(client: Client, mode: str) -> drill.Pace:
    try:
        settings = await client.get(CONFIG_MAPS, SETTINGS, namespace=kinds.CLUSTER_NAMESPACE)
    except errors.NotFound:
        raise UserError("the control plane has published no settings", "is rota federation up running?") from None
    data = settings.get("data") or {}
    return drill.Pace(
        detection_s=float(data[f"detectionSeconds{mode}"]),
        eviction_rate=float(data["evictionRate"]),
        fence_margin_s=float(data["fenceMarginSeconds"]),
    )


async def _rehearsed(client: Client, cluster: str, *, timeout_s: float, keep: bool) -> dict[str, float]:
    """Taint the cluster, and measure when each binding is well elsewhere; by namespace and name of the binding."""
    clock = system.SystemClock()
    waiting = {_key(one): one for one in drill.affected(await _bindings(client), cluster)}
    measured: dict[str, float] = {}
    await _set_taint(client, cluster, times.format_time(clock.now()))
    began = clock.monotonic()
    try:
        with output.waiting() as say:
            while len(measured) < len(waiting) and clock.monotonic() - began < timeout_s:
                say(f"{len(measured)} of {len(waiting)} have moved")
                for binding in await _bindings(client):
                    key = _key(binding)
                    if key in waiting and key not in measured and drill.is_recovered(binding, cluster):
                        measured[key] = clock.monotonic() - began
                await clock.sleep(_LOOK_AGAIN_S)
    finally:
        if not keep:
            await _set_taint(client, cluster, "")
    return measured


async def _set_taint(client: Client, cluster: str, since: str) -> None:
    """Put the taint of a drill on a cluster, or remove it."""
    for _ in range(10):
        present = await client.get(kinds.CLUSTERS, cluster)
        taints = [dict(one) for one in (present.get("spec") or {}).get("taints") or ()]
        taints = [one for one in taints if one.get("key") != drill.TAINT["key"]]
        if since:
            taints.append({**drill.TAINT, "timeAdded": since})
        version = meta.metadata(present).get("resourceVersion")
        try:
            await client.patch(
                kinds.CLUSTERS, cluster, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
            )
        except errors.Conflict:
            continue
        return
    raise UserError(f"cluster {cluster} changes too fast to be tainted", "try again")


def _key(binding: Mapping[str, Any]) -> str:
    reference: Object = (binding.get("spec") or {}).get("resource") or {}
    return f"{meta.namespace(binding)}/{reference.get('kind')}/{reference.get('name')}"


def _tell(cluster: str, rows: Sequence[drill.Row], measured: dict[str, float], *, dry_run: bool, as_json: bool) -> None:
    told: list[dict[str, Any]] = []
    for row in rows:
        key = f"{row.namespace}/{row.kind}/{row.name}"
        seconds = row.after_s if dry_run else measured.get(key)
        moved = row.moves if dry_run else key in measured
        told.append(
            {
                "resource": key,
                "replicas": row.replicas,
                "exclusive": row.exclusive,
                "moves": moved,
                "to": dict(row.gains) if row.moves else {},
                "seconds": None if seconds is None else round(seconds, 1),
                "reason": "" if moved else row.refused or "it has not recovered in time",
            }
        )
    times_s = [one["seconds"] for one in told if one["seconds"] is not None]
    recovery = max(times_s, default=0.0)
    if as_json:
        document = {"cluster": cluster, "dryRun": dry_run, "recoverySeconds": recovery, "resources": told}
        output.document(document)
        return
    output.table(
        ["RESOURCE", "REPLICAS", "EXCLUSIVE", "TO", "SECONDS", "REASON"],
        [
            [
                one["resource"],
                one["replicas"],
                "yes" if one["exclusive"] else "no",
                ",".join(f"{name}:+{count}" if count else name for name, count in one["to"].items()),
                "" if one["seconds"] is None else one["seconds"],
                one["reason"],
            ]
            for one in told
        ],
        right=("REPLICAS", "SECONDS"),
    )
    stays = sum(not one["moves"] for one in told)
    verb = "would move" if dry_run else "moved"
    click.echo(f"{len(told) - stays} {verb}, {stays} stay; recovery takes {recovery:g} s.")
