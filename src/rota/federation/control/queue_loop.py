"""Admits the bindings of federated queues to scheduling, and reports why others wait."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, queues, quotas
from rota.federation.control import conditions
from rota.federation.member import connections
from rota.federation.own_writes import OwnWrites
from rota.kit.backoff import Rng
from rota.kit.clock import Clock


class QueueLoop:
    """Reconciles a queue, by its name, when it or one of its bindings changes."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[str](
            client, "queues", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._queues: Final = self._frame.follow(
            kinds.QUEUES, lambda key, old, new: self._frame.queue.add(key.name)
        ).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, self._binding_changed).cache
        #: A binding that was admitted counts from then on, whether the cache shows it or not.
        self._own: Final = OwnWrites[Key]()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._own.seen(key, new)
        for name in {queues.of_binding(one) for one in (old, new) if one is not None} - {""}:
            self._frame.queue.add(name)

    async def _process(self, name: str) -> float | None:
        members = []
        for key, cached in list(self._bindings.items()):
            binding = self._own.newest(key, cached)
            if binding is not None and queues.of_binding(binding) == name:
                members.append(binding)
        queue = self._queues.get(name)
        if queue is None or meta.is_deleting(queue):
            for binding in filter(queues.is_waiting, members):
                await self._explain(binding, f"queue {name} does not exist; create the FederatedQueue {name}")
            return None
        found = queues.admission(queue, members)
        for one in found.admitted:
            await self._admit(dict(one))
        for one, why in found.waiting:
            await self._explain(dict(one), why)
        await self._report(queue, found)
        return None

    async def _admit(self, binding: Object) -> None:
        """Let the scheduler have a binding; after a conflict the newer version comes back by itself."""
        key = Key(meta.namespace(binding), meta.name(binding))
        patch = {
            "metadata": {"resourceVersion": meta.metadata(binding).get("resourceVersion")},
            "spec": {"suspension": {"scheduling": False}},
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            answer = await self._client.patch(kinds.BINDINGS, key.name, patch, namespace=key.namespace)
            self._own.note(key, answer)

    async def _explain(self, binding: Object, why: str) -> None:
        condition = {"type": "Scheduled", "status": "False", "reason": "WaitsInQueue", "message": why}
        now = times.format_time(self._clock.now())
        await conditions.write(self._client, kinds.BINDINGS, binding, condition, {}, now=now)

    async def _report(self, queue: Object, found: queues.Admission) -> None:
        limited = (queue.get("spec") or {}).get("capacity") or {}
        status: dict[str, Any] = {
            "waiting": len(found.waiting),
            "admitted": found.running,
            "used": quotas.written(found.used, limited),
        }
        if queue.get("status") != status:
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(kinds.QUEUES, meta.name(queue), {"status": status}, subresource="status")
