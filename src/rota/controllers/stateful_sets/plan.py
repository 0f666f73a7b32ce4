"""The next step and the status of a StatefulSet. Pure.

Missing pods are created from the lowest ordinal up, surplus pods deleted from the highest down, then pods of old
templates are replaced from the highest down. Each waits until the one before is available, unless the policy is
`Parallel`, which applies to creation and deletion only: updates always replace one pod (or `maxUnavailable`) at a time.
The rules are upstream's (`pkg/controller/statefulset/stateful_set_control.go`, 1.36).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.api import meta
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.stateful_sets import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A StatefulSet and the state that its next step depends on."""

    owner: Object
    #: The names of the current and the update revision.
    current: str
    update: str
    pods: Sequence[Object]
    now: float

    @property
    def min_ready_s(self) -> int:
        """How long a pod must be ready to be available."""
        return int(self.owner["spec"].get("minReadySeconds") or 0)

    def is_available(self, pod: Object) -> bool:
        """Whether a pod is available."""
        ready_in_s = pod_states.available_in_s(pod, min_ready_s=self.min_ready_s, now=self.now)
        return pod_states.phase(pod) == "Running" and ready_in_s == 0.0

    def is_well(self, pod: Object | None) -> bool:
        """Whether a pod exists, is available, and is not in deletion."""
        return pod is not None and self.is_available(pod) and not meta.is_deleting(pod)


@dataclass(slots=True)
class Step:
    """The pods to create, update and delete."""

    #: The ordinals that get a pod.
    create: list[int] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    #: Pods that stay, whose labels and claims are checked; and pods that are deleted, whose claims are.
    tend: list[Object] = field(default_factory=list)
    condemned: list[Object] = field(default_factory=list)


def step(state: State) -> Step:
    """The next step."""
    found = Step()
    if meta.is_deleting(state.owner):
        return found
    here = {identity.ordinal(state.owner, one): one for one in state.pods}
    wanted = identity.ordinals(state.owner)
    done = _complete(state, here, wanted, found) and _shrink(state, here, wanted, found)
    if done and not found.create and not found.delete:
        _roll(state, here, wanted, found)
    return found


def template_of(state: State, number: int) -> str:
    """The name of the revision for a new pod of an ordinal."""
    strategy = state.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return state.update
    return state.current if number < identity.ordinals(state.owner).start + partition(state.owner) else state.update


def partition(owner: Mapping[str, Any]) -> int:
    """The ordinal, counted from the first, below which pods keep their template."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def status(state: State) -> dict[str, Any]:
    """The status of a StatefulSet."""
    ready = [one for one in state.pods if pod_states.phase(one) == "Running" and pod_states.is_ready(one)]
    staying = [identity.revision(one) for one in state.pods if not meta.is_deleting(one)]
    current, updated, replicas = state.current, staying.count(state.update), len(state.pods)
    here = staying.count(current)
    wanted = len(identity.ordinals(state.owner))
    is_rolling = (state.owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if is_rolling and updated == wanted == len(ready) == replicas:
        current, here = state.update, updated
    numbers = {"readyReplicas": len(ready), "currentReplicas": here, "updatedReplicas": updated}
    old = state.owner.get("status") or {}
    return {
        "observedGeneration": meta.metadata(state.owner).get("generation", 0),
        "replicas": replicas,
        **{name: count for name, count in numbers.items() if count},
        "availableReplicas": sum(map(state.is_available, ready)),
        "currentRevision": current,
        "updateRevision": state.update,
        "collisionCount": old.get("collisionCount") or 0,
        **({"conditions": old["conditions"]} if old.get("conditions") else {}),
    }


def available_in_s(state: State) -> float | None:
    """Seconds until the next ready pod becomes available; None if there is none."""
    waits = [pod_states.available_in_s(one, min_ready_s=state.min_ready_s, now=state.now) for one in state.pods]
    return min((wait for wait in waits if wait), default=None)


def _complete(state: State, here: Mapping[int, Object], wanted: range, found: Step) -> bool:
    """Create missing pods; whether the next phase may start."""
    ordered = _is_ordered(state)
    for number in wanted:
        pod = here.get(number)
        if pod is None:
            found.create.append(number)
        elif pod_states.is_finished(pod):
            if not meta.is_deleting(pod):
                found.delete.append(pod)
        else:
            found.tend.append(pod)
        if ordered and not state.is_well(pod):
            return False
    return True


def _shrink(state: State, here: Mapping[int, Object], wanted: range, found: Step) -> bool:
    """Delete surplus pods; whether the next phase may start."""
    ordered = _is_ordered(state)
    condemned = [here[number] for number in sorted(here, reverse=True) if number not in wanted and number >= 0]
    found.condemned += condemned
    unwell = [one for one in condemned if not state.is_well(one)]
    for pod in condemned:
        if not meta.is_deleting(pod):
            if ordered and not state.is_available(pod) and pod is not unwell[-1]:
                return False
            found.delete.append(pod)
        if ordered:
            return False
    return True


def _roll(state: State, here: Mapping[int, Object], wanted: range, found: Step) -> None:
    """Replace pods of old templates, from the highest ordinal down, with a limited number unavailable."""
    strategy = state.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    away, limit = 0, _max_unavailable(strategy.get("rollingUpdate") or {}, len(wanted))
    for number in reversed(wanted[partition(state.owner) :]):
        pod = here[number]
        if identity.revision(pod) != state.update and not meta.is_deleting(pod):
            found.delete.append(pod)
            away += 1
        elif not state.is_well(pod):
            away += 1
        if away >= limit:
            return


def _max_unavailable(rolling: Mapping[str, Any], replicas: int) -> int:
    amount = rolling.get("maxUnavailable")
    if isinstance(amount, str):
        amount = math.floor(int(amount.removesuffix("%")) * replicas / 100)
    return max(int(amount or 1), 1)


def _is_ordered(state: State) -> bool:
    return bool(state.owner["spec"].get("podManagementPolicy") != "Parallel")
