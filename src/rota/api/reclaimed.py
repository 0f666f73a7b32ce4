"""The batch class: pods that run in capacity which other pods have requested and do not use.

A node that sells such capacity declares it as two resources of its own, so allocatable cpu and memory stay as they are,
and the code that fits and binds pods guards it like any extended resource. Amounts of extended resources are whole
numbers: `rota.dev/batch-cpu` counts thousandths of a core, `rota.dev/batch-memory` bytes.

A batch pod requests both resources in every container, and no cpu and memory beside them: it would hold a place twice.
"""

from collections.abc import Iterator
from typing import Final

from rota.api import resources
from rota.api.resources import CPU, MEMORY, Object

BATCH_CPU: Final = "rota.dev/batch-cpu"
BATCH_MEMORY: Final = "rota.dev/batch-memory"
#: The resources of the class, by the resource that they stand for.
SOLD: Final = {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY}

_CLASS: Final = frozenset(SOLD.values())


def is_batch(pod: Object) -> bool:
    """Whether a container of the pod requests one of the two resources."""
    return any(_CLASS & _named(container) for container in _containers(pod))


def problems(pod: Object) -> list[tuple[str, str]]:
    """What is wrong with the resources of a batch pod: fields, and messages with the remedy."""
    if not is_batch(pod):
        return []
    found = []
    if {CPU, MEMORY} & _named(pod.get("spec") or {}):
        found.append(("spec.resources", f"a pod that requests {BATCH_CPU} has no cpu and memory of its own: remove it"))
    for path, container in _by_path(pod):
        names = _named(container)
        if missing := sorted(_CLASS - names):
            text = f"{missing[0]} is missing: each container of a batch pod limits {BATCH_CPU} and {BATCH_MEMORY}"
            found.append((f"{path}.resources.limits", text))
        if beside := sorted({CPU, MEMORY} & names):
            text = f"{beside[0]} beside {SOLD[beside[0]]}: a batch pod requests one of them, so remove the other"
            found.append((f"{path}.resources", text))
    return found


def container_amount(container: Object, name: str) -> int | None:
    """The limit of a container in one of the two resources; None if it has none."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return resources.amount(name, limits[name]) if name in limits else None


def _by_path(pod: Object) -> Iterator[tuple[str, Object]]:
    spec = pod.get("spec") or {}
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            yield f"spec.{kind}[{number}]", container


def _containers(pod: Object) -> Iterator[Object]:
    return (container for _, container in _by_path(pod))


def _named(holder: Object) -> set[str]:
    """The resources that a container, or a pod as a whole, requests or limits."""
    given = holder.get("resources") or {}
    return {*(given.get("requests") or ()), *(given.get("limits") or ())}
