"""`rota federation cordon`, `uncordon`, `taint`, `top` and `promote`: operate on member clusters."""

from collections.abc import Sequence
from typing import Any, Final

import click

from rota.api import errors, meta, quantities, times
from rota.cli import endpoints, output
from rota.cli.commands import member_listing, resource_names, session
from rota.client import client_factory
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.interpreters import template_fields
from rota.federation.works import manifests
from rota.kit import system
from rota.kit.errors import UserError

_UNSCHEDULABLE: Final = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ATTEMPTS: Final = 10


def cordon(clusters: Sequence[str], *, unschedulable: bool, dry_run: bool, **server: Any) -> None:
    """Set or remove the taint that keeps new resources away from clusters."""

    def changed(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [one for one in taints if one.get("key") != _UNSCHEDULABLE["key"]]
        return [*kept, dict(_UNSCHEDULABLE)] if unschedulable else kept

    word = "cordoned" if unschedulable else "uncordoned"
    _change_taints(clusters, changed, word, dry_run=dry_run, **server)


def taint(cluster: str, given: Sequence[str], *, dry_run: bool, **server: Any) -> None:
    """Set and remove taints of a cluster."""
    added: list[dict[str, str]] = []
    removed: list[dict[str, str]] = []
    for text in given:
        (removed if text.endswith("-") else added).append(_taint(text.removesuffix("-"), removes=text.endswith("-")))
    now = times.format_time(system.SystemClock().now())

    def changed(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [one for one in taints if not any(_is_same(one, other) for other in (*added, *removed))]
        return [*kept, *({**one, "timeAdded": now} for one in added)]

    _change_taints([cluster], changed, "tainted" if added else "untainted", dry_run=dry_run, **server)


def _taint(text: str, *, removes: bool) -> dict[str, str]:
    """`key=value:Effect` or `key:Effect`; to remove one, also `key`."""
    name, colon, effect = text.partition(":")
    key, equals, value = name.partition("=")
    if not key or (not colon and not removes) or (colon and effect not in _EFFECTS):
        raise click.UsageError(f"{text!r} is no taint; write key=value:NoExecute, or key:NoExecute- to remove it")
    return {"key": key, **({"value": value} if equals else {}), **({"effect": effect} if effect else {})}


def _is_same(present: Object, given: Object) -> bool:
    return present.get("key") == given["key"] and given.get("effect") in (None, present.get("effect"))


def _change_taints(clusters: Sequence[str], changed: Any, word: str, *, dry_run: bool, **server: Any) -> None:
    async def work(client: Client) -> None:
        for name in clusters:
            done = await _tainted(client, name, changed, dry_run=dry_run)
            already = "" if done else "already "
            click.echo(f"cluster/{name} {already}{word}{' (dry run)' if dry_run and done else ''}")

    session.at(endpoints.chosen(**server), work)


async def _tainted(client: Client, name: str, changed: Any, *, dry_run: bool) -> bool:
    """Change the taints of a cluster; whether that was necessary."""
    for _ in range(_ATTEMPTS):
        try:
            present = await client.get(kinds.CLUSTERS, name)
        except errors.NotFound:
            raise UserError(f"there is no cluster {name}", "see rota federation clusters") from None
        before = [dict(one) for one in (present.get("spec") or {}).get("taints") or ()]
        after = changed(before)
        if _timeless(after) == _timeless(before):
            return False
        version = meta.metadata(present).get("resourceVersion")
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": after or None}}
        try:
            await client.patch(kinds.CLUSTERS, name, patch, dry_run=dry_run)
        except errors.Conflict:
            continue
        return True
    raise UserError(f"cluster {name} changes too fast", "try again")


def _timeless(taints: Sequence[Object]) -> list[tuple[str, ...]]:
    return sorted(tuple(str(one.get(member) or "") for member in ("key", "value", "effect")) for one in taints)


def top(*, as_json: bool, **server: Any) -> None:
    """Show what members have and what is requested there."""

    async def work(client: Client) -> list[Object]:
        return (await client.list(kinds.CLUSTERS)).items

    rows = [_usage(one) for one in sorted(session.at(endpoints.chosen(**server), work), key=meta.name)]
    if as_json:
        output.document(rows)
        return
    headings = ["NAME", "READY", "NODES", "CPU", "CPU%", "MEMORY", "MEMORY%", "PODS"]
    cells = [
        [
            row["name"],
            row["ready"],
            row["nodes"],
            f"{row['cpu']['requested']:g}/{row['cpu']['allocatable']:g}",
            _percent(row["cpu"]),
            f"{row['memory']['requested'] / 2**30:.1f}/{row['memory']['allocatable'] / 2**30:.1f} GiB",
            _percent(row["memory"]),
            f"{row['pods']['requested']:g}/{row['pods']['allocatable']:g}",
        ]
        for row in rows
    ]
    output.table(headings, cells, right=("CPU%", "MEMORY%"))


def _usage(cluster: Object) -> dict[str, Any]:
    status: Object = cluster.get("status") or {}
    summary: Object = status.get("resourceSummary") or {}
    nodes: Object = status.get("nodeSummary") or {}
    found: dict[str, Any] = {
        "name": meta.name(cluster),
        "ready": (meta.condition(cluster, "Ready") or {}).get("status") or "Unknown",
        "nodes": f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
    }
    for resource in ("cpu", "memory", "pods"):
        amounts = {
            part: quantities.parse((summary.get(part) or {}).get(resource) or "0").milli_value() / 1000
            for part in ("allocatable", "allocated", "allocating")
        }
        found[resource] = {
            "requested": amounts["allocated"] + amounts["allocating"],
            "allocatable": amounts["allocatable"],
        }
    return found


def _percent(amounts: dict[str, float]) -> str:
    return f"{amounts['requested'] / amounts['allocatable']:.0%}" if amounts["allocatable"] else "-"


def promote(
    words: tuple[str, ...], *, cluster: str, namespace: str, dry_run: bool, as_json: bool, **server: Any
) -> None:
    """Make an object of a member a template of the federation, with a policy that keeps it in that member."""
    endpoint = endpoints.chosen(**server)
    where = namespace or endpoint.namespace

    async def work(client: Client) -> list[str]:
        clock, rng = system.SystemClock(), system.rng()
        through = member_listing.at_member(endpoint, cluster)
        async with client_factory.to_server(through, clock=clock, rng=rng) as member:
            (asked, *others) = resource_names.wanted(await resource_names.kinds(member), words)
            if others or len(asked.names) != 1:
                raise click.UsageError("give one kind and one name")
            space = where if asked.kind.namespaced else ""
            found = await member.get(asked.kind, asked.names[0], namespace=space)
        if meta.labels(found).get(manifests.MANAGED) == "true":
            raise UserError(f"{asked.names[0]} is managed by a federation already", "change its template there")
        template = template_fields.pruned(found)
        template["metadata"].setdefault("annotations", {})[manifests.CONFLICTS] = "overwrite"
        policy = _policy(template, cluster, space)
        target = kinds.POLICIES if space else kinds.CLUSTER_POLICIES
        # The policy first: the template never exists without a decision about where it goes.
        made = []
        for kind, obj in ((target, policy), (asked.kind, template)):
            try:
                await client.create(kind, obj, dry_run=dry_run)
            except errors.AlreadyExists:
                raise UserError(
                    f"the federation has a {obj['kind']} {meta.name(obj)} already", "delete or rename it first"
                ) from None
            made.append(f"{obj['kind']} {meta.name(obj)}")
        return made

    made = session.at(endpoint, work)
    if as_json:
        output.document({"created": made, "cluster": cluster, "dryRun": dry_run})
        return
    for one in made:
        click.echo(f"{one} created{' (dry run)' if dry_run else ''}")


def _policy(template: Object, cluster: str, namespace: str) -> dict[str, Any]:
    name = meta.name(template)
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        "metadata": {
            "name": f"{name}-{str(template['kind']).lower()}",
            **({"namespace": namespace} if namespace else {}),
        },
        "spec": {
            "resourceSelectors": [{"apiVersion": template["apiVersion"], "kind": template["kind"], "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
            "conflictResolution": "Overwrite",
        },
    }
