"""ClusterState objects of the API: the scope that a spec names, and the status with the figures. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import resources, times
from rota.api.resources import CPU, MEMORY
from rota.forecast.cluster_state import SHAPES, ClusterState, Resource, Scope, Shape, Zone
from rota.forecast.machine_power import MachinePower

Object = Mapping[str, Any]

CLUSTER_STATES: Final = ("rota.dev", "v1alpha1", "clusterstates")
#: The object about all nodes, which always exists.
WHOLE: Final = "cluster"
_DIGITS: Final = 4
#: The names of a power model's fields on the wire.
_POWER: Final = {"coresPerSocket": "cores_per_socket", "sleepWatts": "sleep_watts"}


def scope_of(spec: Object) -> Scope:
    """The scope of a spec that the server has checked."""
    shapes = tuple(
        Shape(
            each["name"],
            {name: resources.amount(name, quantity) for name, quantity in (each.get("requests") or {}).items()},
            float(each.get("weight") or 1.0),
        )
        for each in spec.get("shapes") or ()
    )
    return Scope(
        node_labels=spec.get("nodeSelector") or {},
        include_tainted=bool(spec.get("includeTainted")),
        shapes=shapes or SHAPES,
        power={each.get("name") or "": _machine_power(each) for each in spec.get("powerModels") or ()},
    )


def _machine_power(document: Object) -> MachinePower:
    given = {_POWER.get(key, key): value for key, value in document.items() if key != "name" and value is not None}
    if "watts" in given:
        given["watts"] = tuple(given["watts"])
    return MachinePower(**given)


def status_of(state: ClusterState, now_s: float) -> dict[str, Any]:
    """The status of an object."""
    status: dict[str, Any] = {
        "observedTime": times.format_time(now_s),
        "nodes": {
            "total": len(state.machines),
            "ready": state.ready,
            "schedulable": state.schedulable,
            "empty": state.empty,
        },
        "pods": {"placed": state.pods, "pending": state.pending},
        "resources": [_resource(each) for each in state.resources],
        "headroom": [
            {
                "shape": each.shape.name,
                "requests": _amounts(each.shape.requests),
                "pods": each.pods,
                "nodes": each.nodes,
                "mostOnOneNode": each.most,
            }
            for each in state.headroom
        ],
        "zones": [_zone(each) for each in state.zones],
        "owners": [
            {
                "namespace": each.owner.namespace,
                "kind": each.owner.workload.kind,
                "name": each.owner.workload.name,
                "pods": each.sum.pods,
                "nodes": each.nodes,
                "zones": dict(each.zones),
                "requested": _of_pods(each.sum.requests),
            }
            for each in state.owners
        ],
        "ownerCount": state.owner_count,
    }
    if state.power is not None:
        status["power"] = {
            "watts": round(state.power.watts, 1),
            "greatestWatts": round(state.power.greatest, 1),
            "asleepNodes": state.power.asleep,
        }
    return status


def is_same(one: Object, other: Object) -> bool:
    """Whether two statuses say the same; the time does not count."""
    return {**one, "observedTime": ""} == {**other, "observedTime": ""}


def _resource(each: Resource) -> dict[str, Any]:
    quantities = ("capacity", "allocatable", "requested", "pending", "free", "stranded")
    found: dict[str, Any] = {
        "resource": each.name,
        **{key: resources.shown(each.name, getattr(each, key)) for key in quantities},
        "fragmentation": round(each.fragmentation, _DIGITS),
    }
    if each.measured_nodes:
        found |= {
            "measuredNodes": each.measured_nodes,
            "used": resources.shown(each.name, each.used),
            "peak": resources.shown(each.name, each.peak),
            "record": {
                "forecasts": each.forecasts,
                "violations": each.violations,
                "severity": round(each.severity, _DIGITS),
                "savings": round(each.savings, _DIGITS),
            },
        }
    return found


def _zone(each: Zone) -> dict[str, Any]:
    return {
        "zone": each.name,
        "nodes": each.nodes,
        "pods": each.sum.pods,
        "allocatable": _of_pods(each.allocatable),
        "requested": _of_pods(each.sum.requests),
    }


def _of_pods(amounts: Mapping[str, int]) -> dict[str, str]:
    """Cpu and memory always, and what else pods request."""
    return _amounts({CPU: 0, MEMORY: 0, **amounts})


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: resources.shown(name, amount) for name, amount in sorted(amounts.items())}
