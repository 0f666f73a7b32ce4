"""The figures of ClusterStates as metrics.

Where kube-state-metrics has a metric for a figure, it has the same name and labels here, so queries and dashboards work
with either. Other names begin with `rota_cluster_state_`; the label `clusterstate` is the name of the object.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from rota.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from rota.forecast.cluster_layout import ClusterLayout, Machine
from rota.forecast.cluster_state import ClusterState, Resource
from rota.kit.metrics import Metrics

States: TypeAlias = Mapping[str, ClusterState]
Samples: TypeAlias = Mapping[tuple[str, ...], float]
_OF_RESOURCES: Final[Mapping[str, tuple[str, Callable[[Resource], float]]]] = {
    "allocatable": ("What the nodes offer to pods.", lambda each: each.allocatable),
    "requested": ("What the pods on the nodes request.", lambda each: each.requested),
    "pending": ("What pods without a node request.", lambda each: each.pending),
    "free": ("What nodes that take pods have left.", lambda each: each.free),
    "stranded": ("What is left on nodes where no pod of the given shapes fits.", lambda each: each.stranded),
    "used": ("What measured nodes use.", lambda each: each.used),
    "predicted_peak": ("The peaks that are expected of measured nodes.", lambda each: each.peak),
}
_BY_RESOURCE: Final = ("clusterstate", "resource")
_CAPACITY: Final = "capacity"
_OF_RECORDS: Final[Mapping[str, tuple[str, Callable[[Resource], float]]]] = {
    "fragmentation_ratio": (
        "The expected share of what is left where a pod of the given shapes does not fit.",
        lambda each: each.fragmentation,
    ),
    "measured_nodes": ("Nodes with a recent measurement.", lambda each: each.measured_nodes),
    "forecasts": ("Forecasts of the present nodes whose horizon has passed.", lambda each: each.forecasts),
    "forecast_violations": ("Forecasts of the present nodes that were too low.", lambda each: each.violations),
    "forecast_savings_ratio": ("The mean share of the nodes that forecasts left free.", lambda each: each.savings),
}


def export(metrics: Metrics, states: Callable[[], States], layout: Callable[[], ClusterLayout | None]) -> None:
    """Declare the metrics; the functions return the present figures at each scrape."""
    for name, (meaning, figure) in _OF_RESOURCES.items():
        unit = "Cores for cpu, units for other resources."
        metrics.follow(name, f"{meaning} {unit}", _BY_RESOURCE, partial(_figures, states, _scaled(figure)))
    for name, (meaning, figure) in _OF_RECORDS.items():
        metrics.follow(name, meaning, _BY_RESOURCE, partial(_figures, states, figure))
    metrics.follow(
        "headroom_pods",
        "How many more pods of a shape fit.",
        ("clusterstate", "shape"),
        lambda: {(of, each.shape.name): each.pods for of, state in states().items() for each in state.headroom},
    )
    metrics.follow(
        "headroom_nodes",
        "Nodes on which at least one more pod of a shape fits.",
        ("clusterstate", "shape"),
        lambda: {(of, each.shape.name): each.nodes for of, state in states().items() for each in state.headroom},
    )
    metrics.follow(
        "nodes",
        "Nodes, by what they are: total, ready, schedulable or empty; a node may be several.",
        ("clusterstate", "state"),
        lambda: dict(_nodes(states())),
    )
    metrics.follow(
        "pods",
        "Pods on the nodes of a zone that have not ended.",
        ("clusterstate", "zone"),
        lambda: {(of, each.name): each.sum.pods for of, state in states().items() for each in state.zones},
    )
    metrics.follow(
        "pending_pods",
        "Pods without a node.",
        ("clusterstate",),
        lambda: {(of,): state.pending for of, state in states().items()},
    )
    metrics.follow(
        "power_watts",
        "The power of the nodes by the models of the object, now and with every node fully used.",
        ("clusterstate", "load"),
        lambda: dict(_watts(states())),
    )
    _export_known_names(metrics, layout)


def _figures(states: Callable[[], States], figure: Callable[[Resource], float]) -> Samples:
    return {(of, each.name): figure(each) for of, state in states().items() for each in state.resources}


def _nodes(states: States) -> Iterator[tuple[tuple[str, ...], float]]:
    for of, state in states.items():
        yield (of, "total"), len(state.machines)
        yield (of, "ready"), state.ready
        yield (of, "schedulable"), state.schedulable
        yield (of, "empty"), state.empty


def _watts(states: States) -> Iterator[tuple[tuple[str, ...], float]]:
    for of, state in states.items():
        if state.power is not None:
            yield (of, "now"), state.power.watts
            yield (of, "full"), state.power.greatest


def _export_known_names(metrics: Metrics, layout: Callable[[], ClusterLayout | None]) -> None:
    """The metrics of nodes that kube-state-metrics has too."""
    known = metrics.beside("kube_node", prefix="kube_node_")
    for name in (_CAPACITY, "allocatable"):
        known.follow(
            f"status_{name}",
            f"The {name} of a node by resource.",
            ("node", "resource", "unit"),
            partial(_amounts, layout, name),
        )
    known.follow(
        "spec_unschedulable",
        "1 if a node is cordoned.",
        ("node",),
        lambda: {(name,): float(each.cordoned) for name, each in _machines(layout())},
    )
    known.follow(
        "status_condition",
        "The condition Ready of a node.",
        ("node", "condition", "status"),
        lambda: {
            (name, "Ready", status.lower()): float(each.condition == status)
            for name, each in _machines(layout())
            if each.condition
            for status in ("True", "False", "Unknown")
        },
    )


def _machines(layout: ClusterLayout | None) -> list[tuple[str, Machine]]:
    return [] if layout is None else list(layout.machines.items())


def _amounts(layout: Callable[[], ClusterLayout | None], which: str) -> Samples:
    found: dict[tuple[str, ...], float] = {}
    for node, machine in _machines(layout()):
        for name, amount in (machine.capacity if which == _CAPACITY else machine.allocatable).items():
            # kube-state-metrics replaces these characters in names of resources.
            shown = name.replace(".", "_").replace("/", "_").replace("-", "_")
            found[node, shown, _unit(name)] = amount / 1000 if name == CPU else amount
    return found


def _unit(name: str) -> str:
    if name == CPU:
        return "core"
    return "byte" if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-") else "integer"


def _scaled(figure: Callable[[Resource], float]) -> Callable[[Resource], float]:
    return lambda each: figure(each) / 1000 if each.name == CPU else figure(each)
