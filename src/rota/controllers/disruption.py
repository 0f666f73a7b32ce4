"""Keeps the status of disruption budgets: how many of their pods are well, how many have to be, and how many may go.

What an eviction takes from a budget it takes by itself, in its own transaction; here budgets are counted anew whenever
their pods change. Evicted pods that are still there are remembered by the budget for two minutes, so that they are not
counted as well and one is not paid for twice. Formulas and words are upstream's (`pkg/controller/disruption`, 1.37).
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
#: How long an eviction is believed in that nothing was seen of.
DISRUPTED_S: Final = 120.0
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_BY_NAMESPACE: Final = "namespace"
#: Where the wished number of pods stands, by the kind of their controller.
_SCALES: Final = {
    ("apps", "ReplicaSet"): ("apps", "v1", "replicasets"),
    ("apps", "Deployment"): ("apps", "v1", "deployments"),
    ("apps", "StatefulSet"): ("apps", "v1", "statefulsets"),
    ("", "ReplicationController"): ("", "v1", "replicationcontrollers"),
}


class NoControllerError(Exception):
    """A pod has no controller that could say how many there should be."""


class DisruptionController:
    """One status for each budget."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](client, "disruption", self._process, clock=clock, rng=rng, metrics=metrics)
        indexers = {_BY_NAMESPACE: by_namespace}
        self._budgets: Final = self._frame.follow(BUDGETS, self._budget_changed, indexers=indexers)
        self._pods: Final = self._frame.follow(PODS, self._pod_changed, indexers=indexers)

    async def run(self) -> None:
        """Keep statuses until cancelled."""
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
                return 0.05  # an eviction was faster, and its news is on the way
        waiting = [times.parse(one) + DISRUPTED_S - now for one in (status.get("disruptedPods") or {}).values()]
        return max(min(waiting), 0.0) + 0.001 if waiting else None

    async def _wanted(self, budget: Object, covered: Sequence[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them have to be well."""
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
        """The sum of what all controllers of the pods want."""
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
        """Who decides, and for how many pods: the owner itself, or the Deployment above it."""
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
    """Whether a budget is about a pod; one without a selector is about none, an empty selector about all."""
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
    """The status of a budget that cannot be counted: nothing may go."""
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
    """Evicted pods that are neither in deletion nor gone, as long as that may be a matter of time."""
    there = {meta.name(pod) for pod in covered if not meta.is_deleting(pod)}
    known: Mapping[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    return {name: at for name, at in known.items() if name in there and times.parse(at) + DISRUPTED_S > now}


def _is_healthy(pod: Object) -> bool:
    return not meta.is_deleting(pod) and meta.is_condition_true(pod, "Ready")


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED
