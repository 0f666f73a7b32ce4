"""The NUMA topology of a node, from its Numatopology: policies, and the free CPUs of each NUMA node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

STATIC: Final = "static"
BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE: Final = "single-numa-node"


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """What a node's kubelet reports."""

    cpu_policy: str
    topology_policy: str
    #: By NUMA node: how many CPUs it has, and how many are not assigned to a container.
    cpus: Mapping[int, int]
    free: Mapping[int, int]


def of_document(document: Mapping[str, Any]) -> NumaTopology:
    """Read a Numatopology; raises ValueError if its set of CPUs cannot be read."""
    spec = document.get("spec") or {}
    policies = spec.get("policies") or {}
    numa_of = {int(cpu): int((at or {}).get("numa") or 0) for cpu, at in (spec.get("cpuDetail") or {}).items()}
    cpus: dict[int, int] = {}
    for numa in numa_of.values():
        cpus[numa] = cpus.get(numa, 0) + 1
    free = dict.fromkeys(cpus, 0)
    for cpu in cpu_set(((spec.get("numares") or {}).get("cpu") or {}).get("allocatable") or ""):
        if cpu in numa_of:
            free[numa_of[cpu]] += 1
    return NumaTopology(
        cpu_policy=policies.get("CPUManagerPolicy") or "",
        topology_policy=policies.get("TopologyManagerPolicy") or "",
        cpus=cpus,
        free=free,
    )


def cpu_set(text: str) -> frozenset[int]:
    """Read a list of CPUs such as 0-3,8."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError('expected a list of CPUs, such as "0-3,8"')
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


def assign(
    topology: NumaTopology, free: Mapping[int, int], wanted: Sequence[int], policy: str
) -> dict[int, int] | None:
    """Give the CPUs of each NUMA node that containers get one after the other; None if the policy refuses the pod.

    A container gets the fewest NUMA nodes that have enough, those with the most free CPUs first. As in the kubelet,
    `restricted` refuses more NUMA nodes than an empty machine would need, `single-numa-node` more than one.
    """
    left = dict(free)
    taken: dict[int, int] = {}
    for number in wanted:
        chosen = _fewest(left, number)
        if chosen is None:
            return None
        least = _fewest(topology.cpus, number) or chosen
        if (policy == SINGLE and len(chosen) > 1) or (policy == RESTRICTED and len(chosen) > len(least)):
            return None
        for numa in chosen:
            part = min(number, left[numa])
            left[numa] -= part
            number -= part  # noqa: PLW2901 - what the other NUMA nodes have to give
            taken[numa] = taken.get(numa, 0) + part
    return taken


def _fewest(free: Mapping[int, int], number: int) -> list[int] | None:
    chosen: list[int] = []
    for numa in sorted(free, key=lambda one: (-free[one], one)):
        if number <= 0:
            break
        chosen.append(numa)
        number -= free[numa]
    return None if number > 0 else chosen
