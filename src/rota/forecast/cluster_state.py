"""The state of a cluster, or of some of its nodes, in figures for dashboards, autoscalers and planners. Pure.

- Headroom: how many more pods of a shape fit, node by node, by their requests.
- Fragmentation of a resource: the expected share of the free amount that lies on nodes where a pod of the given shapes
  does not fit. It is the measure of Fragmentation Gradient Descent, summed over the nodes.
- Stranded: the free amount on nodes where none of the shapes fits.

Only nodes that take pods count as free: ready, not cordoned, and without a taint that keeps pods away, unless tainted
nodes are included. Amounts are integers: millicores for cpu, whole units for other resources.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Final

import numpy as np

from rota.api import meta, resources, times
from rota.api.resources import CPU, MEMORY, PODS
from rota.forecast import machine_power
from rota.forecast.arrays import Booleans, Floats
from rota.forecast.cluster_layout import POWER_LABEL, ClusterLayout, Machine, Owner, Sum, free
from rota.forecast.machine_power import MachinePower
from rota.forecast.node_series import AT_LEAST_S

Object = Mapping[str, Any]

#: A measurement that is older than this does not count.
FRESH_S: Final = 2 * AT_LEAST_S
#: Of how many owners the layout is given: those that request the most cpu.
MOST_OWNERS: Final = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod for which the headroom is given, and how often such pods come."""

    name: str
    requests: Mapping[str, int]
    weight: float = 1.0


_GI: Final = 2**30
#: The shapes of a ClusterState that names none: a small, a medium and a large pod.
SHAPES: Final = (
    Shape("small", {CPU: 500, MEMORY: _GI}),
    Shape("medium", {CPU: 2000, MEMORY: 4 * _GI}),
    Shape("large", {CPU: 4000, MEMORY: 16 * _GI}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which nodes a state is about, and what it is measured with."""

    node_labels: Mapping[str, str] = field(default_factory=dict)
    include_tainted: bool = False
    shapes: Sequence[Shape] = SHAPES
    #: By the value of the nodes' label; the empty name is for all other nodes. Without models there is no figure.
    power: Mapping[str, MachinePower] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Headroom:
    """How many more pods of a shape fit."""

    shape: Shape
    pods: int
    #: Nodes on which at least one fits, and the most that fit on one node.
    nodes: int
    most: int


@dataclass(slots=True, kw_only=True)
class Resource:
    """One resource of all nodes of a state."""

    name: str
    capacity: int = 0
    allocatable: int = 0
    #: The requests of the pods on the nodes, and of pods without a node.
    requested: int = 0
    pending: int = 0
    #: Free on nodes that take pods; the part of it where no shape fits; its expected share where a shape does not fit.
    free: int = 0
    stranded: int = 0
    fragmentation: float = 0.0
    #: Measured: nodes, their use, the peaks that are expected of them, and their allocatable.
    measured_nodes: int = 0
    used: int = 0
    peak: int = 0
    #: The record of the forecasts.
    forecasts: int = 0
    violations: int = 0
    severity: float = 0.0
    savings: float = 0.0


@dataclass(slots=True, kw_only=True)
class Zone:
    """The nodes of one zone."""

    name: str
    nodes: int = 0
    sum: Sum = field(default_factory=Sum)
    allocatable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pods of one owner are."""

    owner: Owner
    sum: Sum
    nodes: int
    zones: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Power:
    """Watts: now, and with every node fully used."""

    watts: float
    greatest: float
    #: Nodes without pods, which the model takes as asleep.
    asleep: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All figures."""

    machines: Mapping[str, Machine]
    ready: int
    schedulable: int
    empty: int
    pods: int
    pending: int
    resources: Sequence[Resource]
    headroom: Sequence[Headroom]
    zones: Sequence[Zone]
    owners: Sequence[Placement]
    owner_count: int
    power: Power | None


def summarize(layout: ClusterLayout, forecasts: Iterable[Object], scope: Scope, now_s: float) -> ClusterState:
    """Compute the state of the nodes in `scope`, with the NodeForecasts of the cluster."""
    machines = {
        name: machine
        for name, machine in layout.machines.items()
        if all(machine.labels.get(key) == value for key, value in scope.node_labels.items())
    }
    sums = {name: layout.placed.get(name) or Sum() for name in machines}
    pending = layout.placed.get("") or Sum()
    usable = np.array([_is_usable(each, scope) for each in machines.values()], dtype=np.bool_)
    left = [free(machine, sums[name]) for name, machine in machines.items()]
    figures = {
        name: Resource(name=name) for name in sorted({key for each in machines.values() for key in each.allocatable})
    }
    for name, machine in machines.items():
        taken = {**sums[name].requests, PODS: sums[name].pods}
        for key, figure in figures.items():
            figure.capacity += machine.capacity.get(key, 0)
            figure.allocatable += machine.allocatable.get(key, 0)
            figure.requested += taken.get(key, 0)
    for key, amount in {**pending.requests, PODS: pending.pods}.items():
        if key in figures:
            figures[key].pending = amount
    rooms = [(shape, _room(shape, left)) for shape in scope.shapes]
    _fragments(figures, left, usable, rooms)
    used = _measurements(figures, machines, forecasts, now_s)
    owners, owner_count = _owners(layout, machines)
    return ClusterState(
        machines=machines,
        ready=sum(each.ready for each in machines.values()),
        schedulable=int(usable.sum()),
        empty=sum(not each.pods for each in sums.values()),
        pods=sum(each.pods for each in sums.values()),
        pending=pending.pods,
        resources=list(figures.values()),
        headroom=[_headroom(shape, np.where(usable, room, 0)) for shape, room in rooms],
        zones=_zones(machines, sums),
        owners=owners,
        owner_count=owner_count,
        power=_power(machines, sums, used, scope) if scope.power else None,
    )


def _is_usable(machine: Machine, scope: Scope) -> bool:
    return machine.ready and not machine.cordoned and (scope.include_tainted or not machine.tainted)


def _room(shape: Shape, left: Sequence[Mapping[str, int]]) -> Floats:
    """How many pods of a shape fit on each node; one that declares no places for pods takes none."""
    wanted = {**{name: amount for name, amount in shape.requests.items() if amount > 0}, PODS: 1}
    return np.array(
        [min(each.get(name, 0) // amount for name, amount in wanted.items()) for each in left], dtype=np.float64
    )


def _headroom(shape: Shape, room: Floats) -> Headroom:
    return Headroom(
        shape=shape, pods=int(room.sum()), nodes=int((room > 0).sum()), most=int(room.max()) if len(room) else 0
    )


def _fragments(
    figures: Mapping[str, Resource],
    left: Sequence[Mapping[str, int]],
    usable: Booleans,
    rooms: Sequence[tuple[Shape, Floats]],
) -> None:
    total = sum(shape.weight for shape, _ in rooms)
    refused = np.zeros(len(left))
    hopeless = np.ones(len(left), dtype=np.bool_)
    for shape, room in rooms:
        refused += (room < 1) * shape.weight / total
        hopeless &= room < 1
    for name, figure in figures.items():
        amounts = np.where(usable, [float(each.get(name, 0)) for each in left], 0.0)
        figure.free = int(amounts.sum())
        figure.stranded = int(amounts[hopeless].sum()) if rooms else 0
        figure.fragmentation = float((amounts * refused).sum() / figure.free) if figure.free else 0.0


def _measurements(
    figures: Mapping[str, Resource], machines: Mapping[str, Machine], forecasts: Iterable[Object], now_s: float
) -> dict[str, float]:
    """Add what was measured and predicted; returns the measured cpu of nodes."""
    used: dict[str, float] = {}
    for document in forecasts:
        node, status = meta.name(document), document.get("status") or {}
        observed = status.get("observedTime")
        if node not in machines or not observed or abs(now_s - times.parse(observed)) > FRESH_S:
            continue
        for each in status.get("resources") or ():
            figure = figures.get(each.get("resource", ""))
            if figure is None or each.get("basis") == "Stale":
                continue
            amount = resources.amount(figure.name, each.get("used"))
            if figure.name == CPU:
                used[node] = float(amount)
            figure.measured_nodes += 1
            figure.used += amount
            figure.peak += resources.amount(figure.name, each.get("peak"))
            record = each.get("record") or {}
            forecasts_made, violations = int(record.get("forecasts") or 0), int(record.get("violations") or 0)
            figure.forecasts += forecasts_made
            figure.violations += violations
            figure.severity += violations * float(record.get("severity") or 0.0)
            figure.savings += forecasts_made * float(record.get("savings") or 0.0)
    for figure in figures.values():
        figure.severity /= max(figure.violations, 1)
        figure.savings /= max(figure.forecasts, 1)
    return used


def _zones(machines: Mapping[str, Machine], sums: Mapping[str, Sum]) -> list[Zone]:
    found: dict[str, Zone] = {}
    for name, machine in machines.items():
        zone = found.setdefault(machine.zone, Zone(name=machine.zone))
        zone.nodes += 1
        zone.sum.merge(sums[name])
        for key, amount in machine.allocatable.items():
            zone.allocatable[key] = zone.allocatable.get(key, 0) + amount
    return [found[name] for name in sorted(found)]


def _owners(layout: ClusterLayout, machines: Mapping[str, Machine]) -> tuple[list[Placement], int]:
    """The owners that request the most cpu, and the number of all."""
    found: list[tuple[int, int, Owner, Mapping[str, Sum]]] = []
    for owner, nodes in layout.owners():
        here = {name: each for name, each in nodes.items() if name in machines}
        if here:
            cpu = sum(each.requests.get(CPU, 0) for each in here.values())
            found.append((cpu, sum(each.pods for each in here.values()), owner, here))
    placements = []
    for _, _, owner, nodes in nlargest(MOST_OWNERS, found, key=lambda each: each[:3]):
        total, zones = Sum(), dict[str, int]()
        for name, each in nodes.items():
            total.merge(each)
            zone = machines[name].zone
            zones[zone] = zones.get(zone, 0) + each.pods
        placements.append(Placement(owner, total, len(nodes), dict(sorted(zones.items()))))
    return placements, len(found)


def _power(machines: Mapping[str, Machine], sums: Mapping[str, Sum], used: Mapping[str, float], scope: Scope) -> Power:
    """The watts of the nodes; a node that is not measured counts by the requests of its pods."""
    watts = greatest = 0.0
    asleep = 0
    groups: dict[str, list[str]] = {}
    for name, machine in machines.items():
        label = machine.labels.get(POWER_LABEL, "")
        groups.setdefault(label if label in scope.power else "", []).append(name)
    for label, names in groups.items():
        model = scope.power.get(label)
        if model is None:
            continue
        capacity = np.array([float(machines[name].allocatable.get(CPU, 0)) for name in names])
        load = np.array([used.get(name, float(sums[name].requests.get(CPU, 0))) for name in names])
        empty = np.array([not sums[name].pods for name in names])
        watts += float(np.where(empty, model.sleep_watts, machine_power.watts(model, load, capacity)).sum())
        greatest += float(machine_power.watts(model, capacity, capacity).sum())
        asleep += int(empty.sum())
    return Power(watts, greatest, asleep)
