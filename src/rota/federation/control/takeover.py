"""When a workload may be started in a cluster: at once, or after another cluster has stopped it.

An exclusive workload waits for every cluster that has more of it than it should. Another one waits only for a cluster
that it is moved away from directly, and only while that cluster answers: in an outage nothing waits.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from rota.api import errors, meta
from rota.client.informers.cache import Cache
from rota.client.verbs import Client, Object, Selection
from rota.federation import kinds
from rota.federation.control.fences import Fences, is_ready
from rota.federation.failover import exclusive
from rota.federation.works import manifests, reports
from rota.kit import logs

log = logs.get(__name__)

_AGAIN_S: Final = 5.0
_SOON_S: Final = 0.2


class Growth(NamedTuple):
    """Whether Works may start something new now, and otherwise when to look again."""

    allowed: bool
    again_s: float = 0.0


_NOW: Final = Growth(allowed=True)


class Takeover:
    """Decides for the Works of a binding, which are all deleted already where they should not be."""

    def __init__(self, client: Client, fences: Fences, clusters: Cache[Object]) -> None:
        self._client: Final = client
        self._fences: Final = fences
        self._clusters: Final = clusters

    async def growth(self, binding: Object, works: Sequence[Object], wanted: Sequence[Object]) -> Growth:
        """Whether the `wanted` Works may start something; `works` are those that a cache shows."""
        known = {meta.namespace(work): work for work in works}
        if not any(exclusive.grows(work, known.get(meta.namespace(work))) for work in wanted):
            return _NOW
        if not any(exclusive.is_marked(work) for work in wanted):
            return self._after_direct(binding, works)
        # A Work that the cache does not show yet may run somewhere.
        listed = await self._listed(binding)
        if listed is None:
            return Growth(allowed=False, again_s=_SOON_S)
        holders = [
            exclusive.Holder(
                exclusive.cluster_of(work),
                await self._fences.remaining_s(exclusive.cluster_of(work), exclusive.stopping_s(work)),
            )
            for work in exclusive.leaving(listed, wanted)
        ]
        waiting = exclusive.longest(holders)
        if waiting is None:
            return _NOW
        log.info(
            "an exclusive workload waits until another cluster has stopped it",
            binding=meta.qualified_name(binding),
            cluster=waiting.cluster,
            remaining_s=None if math.isinf(waiting.remaining_s) else round(waiting.remaining_s, 1),
        )
        return Growth(allowed=False, again_s=min(max(waiting.remaining_s, _SOON_S), _AGAIN_S))

    def _after_direct(self, binding: Object, works: Sequence[Object]) -> Growth:
        direct = reports.directly_left(binding.get("spec") or {})
        waits = any(
            exclusive.cluster_of(work) in direct and is_ready(self._clusters.get(exclusive.cluster_of(work)))
            for work in works
        )
        return Growth(allowed=not waits, again_s=_AGAIN_S if waits else 0.0)

    async def _listed(self, binding: Object) -> list[Object] | None:
        """The Works of a binding as the server has them; None if the binding has changed since it was read."""
        name, namespace = meta.name(binding), meta.namespace(binding)
        label = manifests.BINDING_ID if namespace else manifests.CLUSTER_BINDING_ID
        selection = Selection(labels=f"{label}={meta.labels(binding).get(label, '')}")
        found = (await self._client.list(kinds.WORKS, selection=selection)).items
        try:
            now = await self._client.get(kinds.bindings_of(namespace), name, namespace=namespace)
        except errors.NotFound:
            return None
        return found if meta.metadata(now).get("generation") == meta.metadata(binding).get("generation") else None
