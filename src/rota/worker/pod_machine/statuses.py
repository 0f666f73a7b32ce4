"""The status of a pod: its phase, its conditions, its containers.

Conditions of other components (the scheduler's, readiness gates, disruption targets) are passed through.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import meta
from rota.worker.pod_machine.containers import UNKNOWN, Container, Stage
from rota.worker.pod_machine.machine_events import Object
from rota.worker.pod_machine.specs import PodSpec

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
FINISHED: Final = frozenset({SUCCEEDED, FAILED})
_DISRUPTED: Final = "DisruptionTarget"
_LOST: Final = "The machine, or what looks after containers on it, was lost while the pod ran there."
#: Fields of a status that other components write and the worker must keep.
_OTHERS: Final = ("qosClass", "nominatedNodeName", "observedGeneration", "resize", "resourceClaimStatuses")


def final_phase(main: Iterable[Container], first: Iterable[Container]) -> str:
    """The phase of a pod of which nothing will run any more."""
    wrong = any(not one.succeeded for one in main) or any(one.spec.kind == "init" and one.failed for one in first)
    return FAILED if wrong else SUCCEEDED


def phase(main: Sequence[Container], *, initialized: bool) -> str:
    """The phase of a pod that has not ended."""
    if not initialized or any(one.run == 0 and one.stage is not Stage.RUNNING for one in main):
        return PENDING
    return RUNNING


def conditions(
    seen: Object,
    told: Mapping[str, Any],
    spec: PodSpec,
    containers: Mapping[str, Container],
    *,
    prepared: bool,
    initialized: bool,
    phase: str,
    now: str,
) -> list[dict[str, Any]]:
    """All conditions of a pod; `told` is the last status, whose transition times are kept where nothing changed."""
    own = [
        _condition("PodReadyToStartContainers", prepared and phase not in FINISHED),
        _initialized(spec, containers, initialized, phase),
        _containers_ready("Ready", seen, spec, containers, phase),
        _containers_ready("ContainersReady", seen, spec, containers, phase),
    ]
    if phase == FAILED and _was_lost(containers.values()) and not meta.is_condition_true(seen, _DISRUPTED):
        own.append(_condition(_DISRUPTED, True, "WorkerLost", _LOST))
    kinds = {one["type"] for one in own}
    known = {one["type"]: one for one in (*meta.conditions(seen), *(told.get("conditions") or ())) if "type" in one}
    others = [dict(one) for one in meta.conditions(seen) if one.get("type") not in kinds]
    return [*(_timed(one, known.get(one["type"]), now) for one in own), *others]


def _was_lost(containers: Iterable[Container]) -> bool:
    """Whether a container ended unobserved: it was disrupted with its machine and has not failed."""
    return any(one.ending is not None and one.ending.reason == UNKNOWN for one in containers)


def _timed(new: dict[str, Any], old: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    same = old is not None and old.get("status") == new["status"]
    since = old.get("lastTransitionTime") if old is not None and same else None
    return {**new, "lastTransitionTime": since or now}


def kept(seen: Object) -> dict[str, Any]:
    """The fields of the present status that other components own."""
    status = seen.get("status") or {}
    return {name: status[name] for name in _OTHERS if status.get(name)}


def _condition(kind: str, true: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    found = {"type": kind, "status": "True" if true else "False", "reason": reason, "message": message}
    return {name: value for name, value in found.items() if value}


def _initialized(spec: PodSpec, containers: Mapping[str, Container], initialized: bool, phase: str) -> dict[str, Any]:
    if initialized:
        return _condition("Initialized", True, "PodCompleted" if phase == SUCCEEDED else "")
    missing = " ".join(one.name for one in spec.first if not _is_through(containers[one.name]))
    return _condition(
        "Initialized", False, "ContainersNotInitialized", f"containers with incomplete status: [{missing}]"
    )


def _is_through(container: Container) -> bool:
    return container.started if container.spec.kind == "sidecar" else container.succeeded


def _containers_ready(
    kind: str, seen: Object, spec: PodSpec, containers: Mapping[str, Container], phase: str
) -> dict[str, Any]:
    if phase == SUCCEEDED:
        return _condition(kind, False, "PodCompleted")
    if phase == FAILED:
        return _condition(kind, False, "PodFailed")
    unready = [one.name for one in spec.all if one.kind in {"main", "sidecar"} and not containers[one.name].ready]
    if unready:
        return _condition(kind, False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    closed = [gate for gate in spec.readiness_gates if not meta.is_condition_true(seen, gate)]
    if kind == "Ready" and closed:
        told = ", ".join(f'the status of pod readiness gate "{gate}" is not "True"' for gate in closed)
        return _condition(kind, False, "ReadinessGatesNotReady", told)
    return _condition(kind, True)
