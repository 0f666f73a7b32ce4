"""Reads the capacity that CapacitySources name from a member, and keeps it in the summary of its Cluster."""

import contextlib
from collections.abc import Sequence

from rota.api import errors, meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.estimation import capacity_sources
from rota.federation.member.served_kinds import NotServed, Types


async def publish(control: Client, cluster: Object, member: Client, sources: Sequence[Object]) -> None:
    """Write what a member has of each source, and remove what no source names any more, if that is a change."""
    found = await _read(member, sources)
    summary: Object = (cluster.get("status") or {}).get("resourceSummary") or {}
    wanted = {
        "allocatable": {one: str(total) for one, (total, _) in found.items()},
        "allocated": {one: str(total - free) for one, (total, free) in found.items()},
    }
    gone = dict.fromkeys(published(cluster) - found.keys())
    if gone or any(
        (summary.get(part) or {}).get(one) != value for part in wanted for one, value in wanted[part].items()
    ):
        patch = {"status": {"resourceSummary": {part: {**gone, **values} for part, values in wanted.items()}}}
        with contextlib.suppress(errors.NotFound):
            await control.patch(kinds.CLUSTERS, meta.name(cluster), patch, subresource="status")


def published(cluster: Object) -> set[str]:
    """The resources of sources in a Cluster's summary."""
    summary: Object = (cluster.get("status") or {}).get("resourceSummary") or {}
    return {one for one in summary.get("allocatable") or {} if one.startswith(capacity_sources.PREFIX)}


async def _read(member: Client, sources: Sequence[Object]) -> dict[str, tuple[int, int]]:
    """The total and free amounts by resource; a member that does not serve a kind has none of it."""
    types = Types(member)
    found = {}
    for source in sources:
        try:
            target = await types.of(capacity_sources.kind(source))
            listed = (await member.list(target)).items
        except (NotServed, errors.NotFound):
            listed = []
        found[capacity_sources.resource(source)] = capacity_sources.amounts(source, listed)
    return found
