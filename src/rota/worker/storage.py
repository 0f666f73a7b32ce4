"""Limits on `emptyDir` volumes and on ephemeral storage. Pure.

The caller measures the sizes; the messages are the kubelet's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rota.api import quantities, resources
from rota.client.verbs import Object


def is_limited(pod: Object) -> bool:
    """Whether a pod has such limits."""
    return any(True for _ in _volume_limits(pod)) or _total_limit(pod) is not None


def excess(pod: Object, *, volumes: Mapping[str, int], others: int) -> str:
    """The exceeded limit of a pod; empty if none. Sizes are those of its volumes, by name, and of everything else."""
    for name, limit in _volume_limits(pod):
        if volumes.get(name, 0) > quantities.value(limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}".'
    total = _total_limit(pod)
    if total is not None and sum(volumes.values()) + others > total:
        shown = resources.shown(resources.EPHEMERAL_STORAGE, total)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}."
    return ""


def own_volumes(pod: Object) -> list[str]:
    """The volumes that count as a pod's ephemeral storage: those with its lifetime that are not in memory."""
    return [name for name, _ in _own(pod)]


def _own(pod: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory":
            yield volume["name"], volume["emptyDir"] or {}


def _volume_limits(pod: Object) -> Iterator[tuple[str, str]]:
    for name, wanted in _own(pod):
        if wanted.get("sizeLimit") not in {None, "", "0"}:
            yield name, str(wanted["sizeLimit"])


def _total_limit(pod: Object) -> int | None:
    """The sum of all containers' limits; None if none has one."""
    limits = [
        quantities.value(limit)
        for container in (pod.get("spec") or {}).get("containers") or ()
        if (limit := ((container.get("resources") or {}).get("limits") or {}).get(resources.EPHEMERAL_STORAGE))
    ]
    return sum(limits) if limits else None
