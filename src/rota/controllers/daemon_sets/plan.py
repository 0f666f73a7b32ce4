"""The next step and the status of a DaemonSet. Pure.

First every eligible node gets a pod and surplus pods are deleted (`upkeep`). Then pods of old templates are replaced
(`rolled`), or get a successor beside them if `maxSurge` allows it. The rules are upstream's (`pkg/controller/daemon`,
1.36).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.api import meta
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.daemon_sets import placement
from rota.controllers.daemon_sets.placement import Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A DaemonSet and the state that its next step depends on."""

    owner: Object
    #: The hash of the current template.
    hashed: str
    #: Eligibility by node.
    fits: Mapping[str, Fit]
    #: Its pods.
    pods: Sequence[Object]
    now: float

    @property
    def min_ready_s(self) -> int:
        """How long a pod must be ready to be available."""
        return int(self.owner["spec"].get("minReadySeconds") or 0)

    def is_current(self, pod: Object) -> bool:
        """Whether a pod has the current template."""
        return placement.is_current(pod, self.owner, self.hashed)

    def is_available(self, pod: Object) -> bool:
        """Whether a pod is available."""
        return pod_states.available_in_s(pod, min_ready_s=self.min_ready_s, now=self.now) == 0.0

    def by_node(self, *, with_gone: bool = False) -> dict[str, list[Object]]:
        """The pods of each node, oldest first; ended pods in deletion are included only `with_gone`."""
        found: dict[str, list[Object]] = {}
        for pod in sorted(self.pods, key=_seniority):
            if with_gone or not (meta.is_deleting(pod) and pod_states.is_finished(pod)):
                found.setdefault(placement.node_of(pod), []).append(pod)
        return found


@dataclass(slots=True)
class Step:
    """The pods to create and to delete."""

    #: The nodes that get a pod.
    create: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    #: Ended pods to delete, subject to backoff.
    ended: list[Object] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def upkeep(state: State) -> Step:
    """A pod for every eligible node, and no surplus pods."""
    step, pods = Step(), state.by_node(with_gone=True)
    for node, fit in state.fits.items():
        here = pods.get(node, [])
        if fit.runs and not here:
            step.create.append(node)
        elif not fit.keeps:
            step.delete += [one for one in here if not meta.is_deleting(one)]
        else:
            there = [one for one in here if not meta.is_deleting(one)]
            step.ended += filter(pod_states.is_finished, there)
            step.delete += _surplus(state, [one for one in there if not pod_states.is_finished(one)])
    # A pod made for a deleted node can never be scheduled.
    for node in pods.keys() - state.fits.keys():
        step.delete += [one for one in pods[node] if not one["spec"].get("nodeName") and not meta.is_deleting(one)]
    return step


def rolled(state: State) -> Step:
    """The pods to delete for the rolling update."""
    if str((state.owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")) != "RollingUpdate":
        return Step()
    surge, unavailable = limits(state.owner, desired(state))
    pods = state.by_node()
    nodes = [*pods, *(node for node, fit in state.fits.items() if fit.runs and node not in pods)]
    pairs = {node: _pair(state, pods.get(node, ())) for node in nodes}
    return _surged(state, pairs, surge) if surge else _replaced(state, pairs, unavailable)


def limits(owner: Mapping[str, Any], wanted: int) -> tuple[int, int]:
    """`maxSurge` and `maxUnavailable` as numbers of pods, percentages rounded up; never both 0, which would block."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge, unavailable = (_portion(rolling.get(name), wanted) for name in ("maxSurge", "maxUnavailable"))
    return surge, unavailable if surge or unavailable else 1


def desired(state: State) -> int:
    """How many nodes should have a pod."""
    return sum(fit.runs for fit in state.fits.values())


def status(state: State, *, observed: bool) -> dict[str, Any]:
    """The status of a DaemonSet; `observed` if its current generation has been processed."""
    pods, old = state.by_node(), state.owner.get("status") or {}
    oldest = {node: pods[node][0] for node in pods}
    running = [oldest[node] for node, fit in state.fits.items() if fit.runs and node in oldest]
    ready = [one for one in running if pod_states.is_ready(one)]
    available = sum(map(state.is_available, ready))
    generation = meta.metadata(state.owner).get("generation", 0) if observed else old.get("observedGeneration", 0)
    optional = {
        "updatedNumberScheduled": sum(map(state.is_current, running)),
        "numberAvailable": available,
        "numberUnavailable": desired(state) - available,
        "observedGeneration": generation,
    }
    kept = {name: old[name] for name in ("collisionCount", "conditions") if old.get(name)}
    return {
        "currentNumberScheduled": len(running),
        "numberMisscheduled": sum(not fit.runs and node in oldest for node, fit in state.fits.items()),
        "desiredNumberScheduled": desired(state),
        "numberReady": len(ready),
        **{name: count for name, count in optional.items() if count},
        **kept,
    }


def available_in_s(state: State) -> float | None:
    """Seconds until the next ready pod becomes available; None if there is none."""
    waits = [pod_states.available_in_s(one, min_ready_s=state.min_ready_s, now=state.now) for one in state.pods]
    return min((wait for wait in waits if wait), default=None)


def _surplus(state: State, running: Sequence[Object]) -> list[Object]:
    """Surplus pods of one node: all but the oldest, or all but the oldest of each template."""
    if not limits(state.owner, desired(state))[0]:
        return list(running[1:])
    current = [one for one in running if state.is_current(one)]
    former = [one for one in running if not state.is_current(one)]
    surplus = [*current[1:], *former[1:]]
    if current and former and (not pod_states.is_ready(former[0]) or state.is_available(current[0])):
        surplus.append(former[0])
    return surplus


def _replaced(state: State, pairs: Mapping[str, "_Pair | None"], unavailable: int) -> Step:
    """Delete old pods before their successors are created; unavailable ones at once."""
    missing, worthless, candidates = 0, list[Object](), list[Object]()
    for pair in pairs.values():
        if pair is None or (pair.new is None) == (pair.old is None):
            missing += 1  # upkeep comes first
        elif pair.new is not None:
            missing += not state.is_available(pair.new)
        elif pair.old is not None:
            (candidates if state.is_available(pair.old) else worthless).append(pair.old)
    return Step(delete=worthless + candidates[: max(unavailable - missing - len(worthless), 0)])


def _surged(state: State, pairs: Mapping[str, "_Pair | None"], surge: int) -> Step:
    """Create successors first; delete old pods once those are available."""
    step, surging, worthless, candidates = Step(), 0, list[str](), list[str]()
    for node, pair in pairs.items():
        if pair is None:
            surging += 1
        elif pair.old is None:
            continue
        elif pair.new is not None:
            if state.is_available(pair.new):
                step.delete.append(pair.old)
            else:
                surging += 1
        elif node not in state.fits or not state.fits[node].runs:
            step.delete.append(pair.old)  # no successor is allowed on this node
        else:
            (candidates if state.is_available(pair.old) else worthless).append(node)
    step.create = worthless + candidates[: max(surge - surging, 0)]
    return step


@dataclass(frozen=True, slots=True)
class _Pair:
    """A node's pod of the current template, and its pod of a former one."""

    new: Object | None
    old: Object | None


def _pair(state: State, pods: Iterable[Object]) -> _Pair | None:
    """The pair of a node; None if it has several pods of one template."""
    alive = [one for one in pods if not meta.is_deleting(one)]
    new = [one for one in alive if state.is_current(one)]
    old = [one for one in alive if not state.is_current(one)]
    if len(new) > 1 or len(old) > 1:
        return None
    return _Pair(new[0] if new else None, old[0] if old else None)


def _seniority(pod: Object) -> tuple[bool, str, str]:
    return not pod["spec"].get("nodeName"), str(meta.metadata(pod).get("creationTimestamp") or ""), meta.name(pod)


def _portion(amount: Any, whole: int) -> int:
    if isinstance(amount, str):
        return math.ceil(int(amount.removesuffix("%")) * whole / 100)
    return int(amount or 0)
