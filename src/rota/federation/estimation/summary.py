"""The general estimator: the free capacity by the cluster's resource summary."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import quantities, resources
from rota.federation.clusters import Cluster
from rota.federation.estimation import amounts, models, simulation
from rota.federation.gates import DEFAULT, Gates

Object: TypeAlias = Mapping[str, Any]

#: Sets are placed one by one; a member that claims to have endless room must not stop the control plane.
MOST_SETS: Final = 100_000


def replicas(
    cluster: Cluster, requirements: Object | None, gates: Gates = DEFAULT, assumed: Sequence[Object] = ()
) -> int:
    """How many replicas a cluster can still take."""
    if cluster.summary is None:
        return 0
    free = _Free(cluster.summary)
    if gates.scheduling_overcommit_protection:
        free.deduct(assumed)
    most = free.pods
    if most <= 0:
        return 0
    if requirements is None:
        return most
    if gates.customized_cluster_resource_modeling and cluster.summary.get("allocatableModelings"):
        rooms = models.rooms(cluster)
        if rooms is not None:
            simulation.deduct(rooms, assumed)
            return min(most, _by_models(rooms, requirements))
    return min(most, free.replicas(requirements.get("resourceRequest") or {}))


def sets(cluster: Cluster, components: Sequence[Object], gates: Gates = DEFAULT, assumed: Sequence[Object] = ()) -> int:
    """How many complete sets of components a cluster can still take."""
    if cluster.summary is None:
        return 0
    free = _Free(cluster.summary)
    pods = free.pods
    if pods <= 0:
        return 0
    available = free.mixed_units()
    if gates.scheduling_overcommit_protection and assumed:
        parts = [part for workload in assumed for part in workload.get("components") or ()]
        pods -= _pods(parts)
        for name, wanted in _mixed_units(parts).items():
            available[name] = available.get(name, 0) - wanted
        if pods <= 0:
            return 0
    per_set = _pods(components)
    if per_set <= 0:
        return pods
    most = pods // per_set
    for name, wanted in _mixed_units(components).items():
        if wanted <= 0:
            continue
        if available.get(name, 0) <= 0:
            return 0
        most = min(most, amounts.int32(available[name] // wanted))
    if gates.customized_cluster_resource_modeling and cluster.summary.get("allocatableModelings"):
        rooms = models.rooms(cluster)
        if rooms is not None:
            simulation.deduct(rooms, assumed)
            most = min(most, simulation.complete_sets(rooms, components, min(most, MOST_SETS)))
    return most


def _by_models(rooms: Sequence[simulation.Room], requirements: Object) -> int:
    request = amounts.read(requirements.get("resourceRequest"))
    return min(sum(amounts.times_contained(room.free, request) for room in rooms), amounts.INT32_MAX)


class _Free:
    """What a summary says is free."""

    def __init__(self, summary: Object) -> None:
        self._free: dict[str, quantities.Quantity] = {
            name: quantities.from_wire(quantity) for name, quantity in (summary.get("allocatable") or {}).items()
        }
        self.pods = self._value("pods", self._free.get("pods", quantities.ZERO))
        for used in (summary.get("allocated") or {}, summary.get("allocating") or {}):
            for name, quantity in used.items():
                amount = quantities.from_wire(quantity)
                if name == "pods":
                    self.pods -= amount.value()
                if name in self._free:
                    self._free[name] -= amount
        self.pods = max(self.pods, 0)

    @staticmethod
    def _value(name: str, amount: quantities.Quantity) -> int:
        return amount.milli_value() if name == resources.CPU else amount.value()

    def deduct(self, assumed: Iterable[Object]) -> None:
        for workload in assumed:
            for part in workload.get("components") or ():
                count = int(part.get("replicas") or 0)
                if count <= 0:
                    continue
                self.pods = max(self.pods - count, 0)
                request = (part.get("replicaRequirements") or {}).get("resourceRequest") or {}
                for name, quantity in request.items():
                    if name in self._free:
                        self._free[name] -= _times(name, quantities.from_wire(quantity), count)

    def replicas(self, request: Object) -> int:
        most = amounts.INT64_MAX
        for name, quantity in request.items():
            wanted = quantities.from_wire(quantity)
            if wanted.value() <= 0:
                continue
            free = self._free.get(name)
            if free is None or free.value() <= 0:
                return 0
            most = min(most, self._value(name, free) // self._value(name, wanted))
        return most

    def mixed_units(self) -> dict[str, int]:
        return {name: _mixed(amount) for name, amount in self._free.items()}


def _times(name: str, amount: quantities.Quantity, count: int) -> quantities.Quantity:
    """What replicas take together, each rounded up by itself."""
    if name == resources.CPU:
        return quantities.from_milli(amount.milli_value() * count, amount.format)
    return quantities.from_value(amount.value() * count, amount.format)


def _mixed(amount: quantities.Quantity) -> int:
    """A number whose unit depends on the notation: thousandths of decimal quantities, whole units of binary ones."""
    return amount.value() if amount.format is quantities.Format.BINARY_SI else amount.milli_value()


def _mixed_units(components: Iterable[Object]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in components:
        count = int(part.get("replicas") or 0)
        request = (part.get("replicaRequirements") or {}).get("resourceRequest") or {}
        for name, quantity in request.items():
            total[name] = total.get(name, 0) + _mixed(quantities.from_wire(quantity)) * count
    return total


def _pods(components: Iterable[Object]) -> int:
    return sum(int(part.get("replicas") or 0) for part in components)
