"""Updates the status of PodDisruptionBudgets: healthy pods, desired healthy pods, allowed disruptions.

An eviction decrements a budget in its own transaction; this controller recounts when pods change. A budget remembers
evicted pods that still exist for two minutes, so that they do not count as healthy and one eviction is not charged
twice. Formulas and messages are upstream's (`pkg/controller/disruption`, 1.37).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta, selectors, times
from rota.client.informers.cache import Key, by_namespace
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

BUDGETS: Final = ("policy", "v1", "poddisruptionbudgets")
PODS: Final = ("", "v1", "pods")
#: How long a recorded eviction counts before its deletion is observed.
DISRUPTED_S: Final = 120.0
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_BY_NAMESPACE: Final = "namespace"
#: Resources with a desired number of pods, by group and kind of the controller.
_SCALES: Final = {
    ("apps", "ReplicaSet"): ("apps", "v1", "replicasets"),
    ("apps", "Deployment"): ("apps", "v1", "deployments"),
    ("apps", "StatefulSet"): ("apps", "v1", "statefulsets"),
    ("", "ReplicationController"): ("", "v1", "replicationcontrollers"),
}


class NoControllerError(Exception):
    """A pod has no controller from which the expected number of pods could be read."""


class DisruptionController:
    """Updates the status of all budgets."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](client, "disruption", self._process, clock=clock, rng=rng, metrics=metrics)
        indexers = {_BY_NAMESPACE: by_namespace}
        self._budgets: Final = self._frame.follow(BUDGETS, self._budget_changed, indexers=indexers)
        self._pods: Final = self._frame.follow(PODS, self._pod_changed, indexers=indexers)

    async def run(self) -> None:
        """Update statuses until cancelled."""
        await self._frame.run()

    def _budget_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for budget in self._budgets.cache.indexed(_BY_NAMESPACE, key.namespace):
            if any(one is not None and covers(budget, one) for one in (old, new)):
                self._frame.queue.add(Key(key.namespace, meta.name(budget)))

    async def _process(self, key: Key) -> float | None:
        budget = self._budgets.cache.get(key.name, key.namespace)
        if budget is None:
            return None
        covered = [
            pod
            for pod in self._pods.cache.indexed(_BY_NAMESPACE, key.namespace)
            if covers(budget, pod) and not _is_finished(pod)
        ]
        now = self._clock.now()
        try:
            expected, desired = await self._wanted(budget, covered)
        except NoControllerError as problem:
            status = failed(budget, str(problem), now=times.format_time(now))
        else:
            status = count(budget, covered, expected=expected, desired=desired, now=now)
        if status != budget.get("status"):
            try:
                await self._client.update(BUDGETS, {**budget, "status": status}, subresource="status")
            except errors.NotFound:
                return None
            except errors.Conflict:
                return 0.05  # an eviction wrote first: the watch delivers it
        waiting = [times.parse(one) + DISRUPTED_S - now for one in (status.get("disruptedPods") or {}).values()]
        return max(min(waiting), 0.0) + 0.001 if waiting else None

    async def _wanted(self, budget: Object, covered: Sequence[Object]) -> tuple[int, int]:
        """The expected number of pods, and how many must be healthy."""
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            expected = await self._expected(covered)
            return expected, max(expected - scaled(most, expected), 0)
        if isinstance(least, str):
            expected = await self._expected(covered)
            return expected, scaled(least, expected)
        return len(covered), int(least or 0)

    async def _expected(self, covered: Sequence[Object]) -> int:
        """The sum of the sizes of all controllers of the pods."""
        found: dict[str, int] = {}
        for pod in covered:
            owner = meta.controller_of(pod)
            if owner is None:
                name = meta.name(pod)
                raise NoControllerError(f'found no controllers for pod "{name}"')
            if owner["uid"] not in found:
                uid, replicas = await self._scale(meta.namespace(pod), owner)
                found[owner["uid"]] = 0
                found[uid] = replicas
        return sum(found.values())

    async def _scale(self, namespace: str, owner: Mapping[str, Any]) -> tuple[str, int]:
        """The controller that sets the size, and the size: the owner itself, or its Deployment."""
        group = owner.get("apiVersion", "").rpartition("/")[0]
        target = _SCALES.get((group, owner.get("kind", "")))
        if target is None:
            raise NoControllerError(f"{owner.get('kind')} {owner.get('name')} does not say how many pods it wants")
        try:
            found = await self._client.get(target, owner["name"], namespace=namespace)
        except errors.NotFound:
            return owner["uid"], 0
        above = meta.controller_of(found)
        if above is not None and above.get("kind") == "Deployment":
            return await self._scale(namespace, above)
        replicas = (found.get("spec") or {}).get("replicas")
        return meta.uid(found), 1 if replicas is None else int(replicas)


def covers(budget: Object, pod: Object) -> bool:
    """Whether a budget selects a pod; a missing selector selects none, an empty one all."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selectors.from_object(selector).matches(meta.labels(pod))


def scaled(amount: int | str, total: int) -> int:
    """A number, or a percentage of a total, rounded up."""
    if isinstance(amount, str):
        return math.ceil(int(amount.rstrip("%")) * total / 100)
    return amount


def count(budget: Object, covered: Sequence[Object], *, expected: int, desired: int, now: float) -> dict[str, Any]:
    """The status of a budget."""
    disrupted = _still_disrupted(budget, covered, now)
    healthy = sum(_is_healthy(pod) and meta.name(pod) not in disrupted for pod in covered)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": meta.metadata(budget).get("generation", 0),
    }
    status: dict[str, Any] = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": meta.metadata(budget).get("generation", 0),
        "conditions": meta.with_condition(meta.conditions(budget), condition, now=times.format_time(now)),
    }
    return {**status, "disruptedPods": disrupted} if disrupted else status


def failed(budget: Object, message: str, *, now: str) -> dict[str, Any]:
    """The status of a budget that cannot be counted: no disruptions are allowed."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": message,
        "observedGeneration": meta.metadata(budget).get("generation", 0),
    }
    status = budget.get("status") or {}
    return {
        "currentHealthy": status.get("currentHealthy", 0),
        "desiredHealthy": status.get("desiredHealthy", 0),
        "expectedPods": status.get("expectedPods", 0),
        "disruptionsAllowed": 0,
        "observedGeneration": meta.metadata(budget).get("generation", 0),
        "conditions": meta.with_condition(meta.conditions(budget), condition, now=now),
    }


def _still_disrupted(budget: Object, covered: Sequence[Object], now: float) -> dict[str, str]:
    """Recorded evictions whose pods are neither in deletion nor gone, and that have not expired."""
    there = {meta.name(pod) for pod in covered if not meta.is_deleting(pod)}
    known: Mapping[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    return {name: at for name, at in known.items() if name in there and times.parse(at) + DISRUPTED_S > now}


def _is_healthy(pod: Object) -> bool:
    return not meta.is_deleting(pod) and meta.is_condition_true(pod, "Ready")


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED
