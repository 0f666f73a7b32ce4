"""Maintains the number of pods of ReplicaSets.

Selected pods without a controller are adopted (`controller_ref_manager`). Missing pods are created in batches that
double (`pod_control.slow_start`); surplus pods are deleted in the order of `pod_states.deletion_order`. Behaves as
upstream's (`pkg/controller/replicaset`, 1.36).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Never

from rota.api import meta, times
from rota.client.verbs import Client, Object
from rota.controllers import pod_states
from rota.controllers.controller_ref_manager import BY_CONTROLLER, OWNED, OwnerKind
from rota.controllers.owned_reconciler import OwnedReconciler
from rota.controllers.pod_control import PODS, PodControl, from_template, prefix, slow_start
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

REPLICA_SETS: Final = ("apps", "v1", "replicasets")
KIND: Final = OwnerKind(api_version="apps/v1", kind="ReplicaSet", target=REPLICA_SETS)
#: Pods that are created or deleted in one round.
_BURST: Final = 500


class ReplicaSetController:
    """Manages the pods of all ReplicaSets."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[Never](
            client,
            KIND,
            self._sync,
            name="replica sets",
            component="replicaset-controller",
            clock=clock,
            rng=rng,
            metrics=metrics,
            indexers=OWNED,
        )
        # the status is updated even if the cache lacks some of the controller's own writes
        self._pods: Final = self._home.own(PODS, awaited=False)
        self._control: Final = PodControl(
            client, recorder=self._home.recorder, expectations=self._pods.expectations, rng=rng
        )

    async def run(self) -> None:
        """Manage pods until cancelled."""
        await self._home.run()

    async def _sync(self, owner: Object) -> float | None:
        settled = self._pods.settled(owner)
        pods = await self._pods.claim(owner, only=pod_states.is_active)
        leaving = sum(map(pod_states.is_terminating, self._pods.owned_by(owner)))
        problem: Exception | None = None
        if settled and not meta.is_deleting(owner):
            problem = await self._manage(owner, pods)
        now = self._clock.now()
        status = count(owner, pods, leaving=leaving, problem=problem, now=now)
        if status != owner.get("status"):
            await self._client.update(REPLICA_SETS, {**owner, "status": status}, subresource="status")
        if problem is not None:
            raise problem
        waits = [pod_states.available_in_s(one, min_ready_s=_min_ready_s(owner), now=now) for one in pods]
        soonest = min((wait for wait in waits if wait), default=None)
        if settled:
            return soonest
        patience = self._pods.expectations.patience_s(meta.uid(owner))
        return patience if soonest is None else min(soonest, patience)

    async def _manage(self, owner: Object, pods: Sequence[Object]) -> Exception | None:
        """Create or delete pods; returns the first error."""
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
        surplus = pod_states.deletion_order(
            pods, min(-missing, _BURST), related=self._related(owner), now=self._clock.now()
        )
        outcomes = await asyncio.gather(*(self._control.delete(owner, one) for one in surplus), return_exceptions=True)
        return next((one for one in outcomes if isinstance(one, Exception)), None)

    def _related(self, owner: Object) -> list[Object]:
        """The pods of all sets with the same controller, including this one."""
        above = meta.controller_of(owner)
        siblings = [owner] if above is None else self._home.owners.indexed(BY_CONTROLLER, str(above.get("uid", "")))
        return [pod for one in siblings for pod in self._pods.owned_by(one)]


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
