"""Keeps as many pods of a template as a ReplicaSet says.

Pods that its selector selects are its own, made by it or not (`claims`). Too few are made up for in batches that double
(`pod_control.slow_start`); of too many, those go that are missed least (`pod_states.least_missed`). Behaves as
upstream's (`pkg/controller/replicaset`, 1.36).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object
from rota.controllers import pod_states
from rota.controllers.claims import BY_CONTROLLER, OWNED, OWNERS, Claims, Family, OwnerKind
from rota.controllers.expectations import Expectations
from rota.controllers.pod_control import PODS, PodControl, from_template, prefix, slow_start
from rota.controllers.reconciling import Reconciler
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

REPLICA_SETS: Final = ("apps", "v1", "replicasets")
KIND: Final = OwnerKind(api_version="apps/v1", kind="ReplicaSet", target=REPLICA_SETS)
#: So many pods are made or deleted before the next look.
_BURST: Final = 500
_WORKERS: Final = 5
#: Somebody else wrote first, and the news is on the way.
_SOON_S: Final = 0.05


class ReplicaSetController:
    """Pods for every ReplicaSet."""

    def __init__(self, client: Client, *, clock: Clock, chance: Chance, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "replica sets", self._process, clock=clock, chance=chance, workers=_WORKERS, metrics=metrics
        )
        self._expectations: Final = Expectations(clock)
        self._control: Final = PodControl(
            client,
            recorder=self._frame.report_as("replicaset-controller"),
            expectations=self._expectations,
            chance=chance,
        )
        self._sets: Final = self._frame.follow(REPLICA_SETS, self._set_changed, indexers={**OWNERS, **OWNED})
        pods = self._frame.follow(PODS, self._pod_changed, indexers=OWNED)
        own = Claims(client, PODS, KIND, expectations=self._expectations)
        self._family: Final = Family(own, KIND, owners=self._sets, owned=pods)

    async def run(self) -> None:
        """Keep pods until cancelled."""
        await self._frame.run()

    def _set_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._family.owner_changed(key, old, new)
        if new is None and old is not None:
            self._expectations.forget(meta.uid(old))
        self._frame.queue.add(key)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._expectations.observe(key, old, new)
        for owner in self._family.concerned(key, old, new):
            self._frame.queue.add(owner)

    async def _process(self, key: Key) -> float | None:
        found = self._sets.cache.get(key.name, key.namespace)
        if found is None:
            return None
        owner = KIND.complete(found)
        uid = meta.uid(owner)
        settled = self._expectations.settled(uid)
        pods = await self._family.claim(owner, only=pod_states.is_active)
        leaving = sum(map(pod_states.is_terminating, self._family.owned_by(owner)))
        problem: Exception | None = None
        if settled and not meta.is_deleting(owner):
            problem = await self._manage(owner, pods)
        now = self._clock.now()
        status = count(owner, pods, leaving=leaving, problem=problem, now=now)
        if status != owner.get("status"):
            try:
                await self._client.update(REPLICA_SETS, {**owner, "status": status}, subresource="status")
            except errors.NotFound:
                return None
            except errors.Conflict:
                return _SOON_S
        if problem is not None:
            raise problem
        waits = [pod_states.available_in_s(one, min_ready_s=_min_ready_s(owner), now=now) for one in pods]
        soonest = min((wait for wait in waits if wait), default=None)
        if settled:
            return soonest
        patience = self._expectations.patience_s(uid)
        return patience if soonest is None else min(soonest, patience)

    async def _manage(self, owner: Object, pods: Sequence[Object]) -> Exception | None:
        """Make or delete pods; what went wrong with the first that it went wrong with."""
        missing = _replicas(owner) - len(pods)
        if missing > 0:
            template = owner["spec"].get("template") or {}
            started = await slow_start(
                min(missing, _BURST),
                lambda _: self._control.create(
                    owner, from_template(owner, template), name_prefix=prefix(meta.name(owner))
                ),
            )
            return started.error
        surplus = pod_states.least_missed(
            pods, min(-missing, _BURST), related=self._related(owner), now=self._clock.now()
        )
        outcomes = await asyncio.gather(*(self._control.delete(owner, one) for one in surplus), return_exceptions=True)
        return next((one for one in outcomes if isinstance(one, Exception)), None)

    def _related(self, owner: Object) -> list[Object]:
        """The pods of all sets that have the same controller, this one's among them."""
        above = meta.controller_of(owner)
        siblings = [owner] if above is None else self._sets.cache.indexed(BY_CONTROLLER, str(above.get("uid", "")))
        return [pod for one in siblings for pod in self._family.owned_by(one)]


def count(
    owner: Object, pods: Sequence[Object], *, leaving: int, problem: Exception | None, now: float
) -> dict[str, Any]:
    """The status of a set with these active pods."""
    spec, old = owner["spec"], owner.get("status") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    waits = [pod_states.available_in_s(one, min_ready_s=_min_ready_s(owner), now=now) for one in pods]
    numbers = {
        "fullyLabeledReplicas": sum(labels.items() <= meta.labels(one).items() for one in pods),
        "readyReplicas": sum(pod_states.is_ready(one) for one in pods),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
    }
    conditions = [dict(one) for one in old.get("conditions") or ()]
    if problem is None:
        conditions = meta.without_condition(conditions, "ReplicaFailure")
    elif meta.condition(owner, "ReplicaFailure") is None:
        failure = {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate" if len(pods) < _replicas(owner) else "FailedDelete",
            "message": str(problem),
        }
        conditions = meta.with_condition(conditions, failure, now=times.format_time(now))
    return {
        "replicas": len(pods),
        **{name: number for name, number in numbers.items() if number},
        "terminatingReplicas": leaving,
        "observedGeneration": meta.metadata(owner).get("generation", 0),
        **({"conditions": conditions} if conditions else {}),
    }


def _replicas(owner: Object) -> int:
    replicas = owner["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _min_ready_s(owner: Object) -> int:
    return int(owner["spec"].get("minReadySeconds") or 0)
