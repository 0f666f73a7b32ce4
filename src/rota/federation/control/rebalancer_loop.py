"""WorkloadRebalancers: a fresh placement for the workloads that one lists."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.member import connections
from rota.kit.backoff import Rng
from rota.kit.clock import Clock


class RebalancerLoop:
    """Asks for a fresh placement of each workload once, and deletes a rebalancer after its time to live."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[str](
            client, "rebalancers", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._rebalancers: Final = self._frame.follow(kinds.REBALANCERS, self._changed).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        rebalancer = self._rebalancers.get(name)
        if rebalancer is None or meta.is_deleting(rebalancer):
            return None
        status: Object = rebalancer.get("status") or {}
        generation = meta.metadata(rebalancer).get("generation")
        if status.get("observedGeneration") == generation and status.get("finishTime"):
            return await self._expire(rebalancer, status)
        before = {_key(one["workload"]): one for one in status.get("observedWorkloads") or ()}
        observed = []
        for workload in (rebalancer.get("spec") or {}).get("workloads") or ():
            known = before.get(_key(workload))
            observed.append(known if known and known.get("result") == "Successful" else await self._ask(workload))
        written = {
            "observedWorkloads": observed,
            "observedGeneration": generation,
            "finishTime": times.format_time(self._clock.now()),
        }
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(kinds.REBALANCERS, name, {"status": written}, subresource="status")
        return None

    async def _ask(self, workload: Object) -> dict[str, Any]:
        namespace = workload.get("namespace") or ""
        binding = object_names.binding(workload["kind"], workload["name"])
        patch = {"spec": {"rescheduleTriggeredAt": times.format_time(self._clock.now())}}
        try:
            await self._client.patch(kinds.bindings_of(namespace), binding, patch, namespace=namespace)
        except errors.NotFound:
            return {"workload": dict(workload), "result": "Failed", "reason": "ReferencedBindingNotFound"}
        return {"workload": dict(workload), "result": "Successful"}

    async def _expire(self, rebalancer: Object, status: Object) -> float | None:
        ttl_s = (rebalancer.get("spec") or {}).get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        remaining_s = times.parse(status["finishTime"]) + float(ttl_s) - self._clock.now()
        if remaining_s > 0:
            return remaining_s
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(kinds.REBALANCERS, meta.name(rebalancer))
        return None


def _key(workload: Object) -> tuple[str, ...]:
    return tuple(str(workload.get(member) or "") for member in ("apiVersion", "kind", "namespace", "name"))
