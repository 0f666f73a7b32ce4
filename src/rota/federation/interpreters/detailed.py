"""Statuses of StatefulSets, Pods and claims in full: revisions, conditions, ordinals, addresses and sizes.

Off unless the gate `DetailedStatus` is on: upstream keeps counters and phases only. What each cluster reports is in the
binding's aggregated status, per ordinal for StatefulSets; the template's own status is merged from that.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation.interpreters import aggregation, merged_conditions, statuses, trees

Object: TypeAlias = Mapping[str, Any]
Items: TypeAlias = Sequence[Object]

_REVISIONS: Final = ("currentRevision", "updateRevision")
_COUNTERS: Final = statuses.STATEFUL_SET
_ORDINAL: Final = re.compile(r".*-([0-9]+)")
STATEFUL_SET: Final = ("apps/v1", "StatefulSet")
POD: Final = ("v1", "Pod")
CLAIM: Final = ("v1", "PersistentVolumeClaim")


def stateful_set_status(obj: Object, pods: Iterable[Object]) -> dict[str, Any] | None:
    """Counters, revisions and conditions, and each ordinal with its pod's state."""
    names = (*_COUNTERS, *_REVISIONS, "observedGeneration", "conditions")
    found = statuses.with_generations(names)(obj)
    if found is None:
        return None
    return {**found, "ordinals": [_ordinal(number, pod) for number, pod in sorted(_numbered(obj, pods))]}


def _numbered(obj: Object, pods: Iterable[Object]) -> list[tuple[int, Any]]:
    found = []
    for pod in pods:
        controller = meta.controller_of(pod)
        number = _ORDINAL.fullmatch(meta.name(pod))
        if number is not None and controller is not None and controller.get("uid") == meta.uid(obj):
            found.append((int(number[1]), pod))
    return found


def _ordinal(number: int, pod: Object) -> dict[str, Any]:
    status: Object = pod.get("status") or {}
    found = {
        "ordinal": number,
        "pod": meta.name(pod),
        "phase": status.get("phase"),
        "ready": meta.is_condition_true(pod, "Ready"),
        "podIP": status.get("podIP"),
        "nodeName": (pod.get("spec") or {}).get("nodeName"),
        "revision": meta.labels(pod).get("controller-revision-hash"),
    }
    return {name: value for name, value in found.items() if value is not None}


def of_stateful_set(obj: Object, items: Items, now: str) -> dict[str, Any]:
    """Sums, merged conditions, and a revision where all clusters agree on it."""
    status = aggregation.sums((*_COUNTERS, "observedGeneration"))(obj, items, now) or {}
    reported = [item["status"] for item in items if item.get("status")]
    for name in _REVISIONS:
        values = {one.get(name) for one in reported}
        status.pop(name, None)
        if len(reported) == len(items) and len(values) == 1 and None not in values:
            status[name] = values.pop()
    return _with_conditions(status, items, now)


def of_pod(obj: Object, items: Items, now: str) -> Object | None:
    """The whole status of a pod in one cluster; of several, the worst phase, all containers and addresses."""
    if len(items) == 1 and items[0].get("status"):
        return dict(items[0]["status"])
    status = dict(aggregation.of_pod(obj, items, now) or {})
    for name in ("containerStatuses", "initContainerStatuses"):
        found = [one for item in items for one in (item.get("status") or {}).get(name) or ()]
        if found:
            status[name] = found
    addresses = [{"ip": item["status"]["podIP"]} for item in items if (item.get("status") or {}).get("podIP")]
    if addresses:
        status["podIPs"] = addresses
    return _with_conditions(status, items, now)


def of_claim(obj: Object, items: Items, now: str) -> dict[str, Any]:
    """The phase as upstream has it, sizes and modes where all clusters agree, and merged conditions."""
    status = dict(aggregation.of_claim(obj, items, now) or {})
    reported = [item["status"] for item in items if item.get("status")]
    for name in ("capacity", "accessModes"):
        values = [one.get(name) for one in reported]
        if values and len(values) == len(items) and all(value == values[0] for value in values) and values[0]:
            status[name] = values[0]
    return _with_conditions(status, items, now)


def _with_conditions(status: dict[str, Any], items: Items, now: str) -> dict[str, Any]:
    conditions = merged_conditions.merged(items, now)
    status.pop("conditions", None)
    return {**status, "conditions": conditions} if conditions else status


AGGREGATED: Final[Mapping[tuple[str, str], Callable[[Object, Items, str], Object | None]]] = {
    STATEFUL_SET: of_stateful_set,
    POD: of_pod,
    CLAIM: of_claim,
}


def selector_of(obj: Object) -> Object | None:
    """The selector of the pods that a status is read with; None if none are needed."""
    is_set = (obj.get("apiVersion"), obj.get("kind")) == STATEFUL_SET
    return trees.get(obj, "spec", "selector") if is_set else None
