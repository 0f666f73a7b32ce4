"""The categories `interpret` and `names`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rota.federation import object_names
from rota.federation.interpreters import native, replicas, statuses, template_fields

Object: TypeAlias = Mapping[str, Any]

_TIMES: Final = ("lastProbeTime", "lastTransitionTime")


def interpret(scenario: Object) -> dict[str, Any]:
    """One question about one object."""
    operation = _OPERATIONS.get(scenario["operation"])
    if operation is None:
        raise ValueError(f"operation {scenario['operation']!r} is not known; use one of {', '.join(_OPERATIONS)}")
    return operation(scenario, scenario["object"])


def _replica(scenario: Object, obj: Object) -> dict[str, Any]:
    read = native.REPLICAS.get(native.kind_of(obj))
    if read is None:
        return {"supported": False}
    count, needed = read(obj)
    return {"supported": True, "replicas": count, "requirements": needed}


def _revise(scenario: Object, obj: Object) -> dict[str, Any]:
    member = native.REVISED.get(native.kind_of(obj))
    if member is None:
        return {"supported": False}
    return {"supported": True, "object": replicas.revised(obj, int(scenario.get("replicas") or 0), member)}


def _retain(scenario: Object, obj: Object) -> dict[str, Any]:
    retain = native.RETAINED.get(native.kind_of(obj))
    return {"supported": False} if retain is None else {"supported": True, "object": retain(obj, scenario["observed"])}


def _aggregate(scenario: Object, obj: Object) -> dict[str, Any]:
    aggregate = native.AGGREGATED.get(native.kind_of(obj))
    if aggregate is None:
        return {"supported": False}
    status = aggregate(obj, scenario.get("items") or (), "")
    if status and native.kind_of(obj)[1] == "Job" and status is not obj.get("status") and status.get("conditions"):
        conditions = [{name: one[name] for name in one if name not in _TIMES} for one in status["conditions"]]
        status = {**status, "conditions": conditions}
    return {"supported": True, "status": status}


def _depend(scenario: Object, obj: Object) -> dict[str, Any]:
    find = native.DEPENDENCIES.get(native.kind_of(obj))
    return {"supported": False} if find is None else {"supported": True, "dependencies": find(obj)}


def _status(scenario: Object, obj: Object) -> dict[str, Any]:
    try:
        return {"supported": True, "status": native.collected_status(obj)}
    except statuses.NotReadable:
        return {"supported": True, "error": True}


def _health(scenario: Object, obj: Object) -> dict[str, Any]:
    judge = native.HEALTH.get(native.kind_of(obj))
    return {"supported": False} if judge is None else {"supported": True, "healthy": judge(obj)}


def _prune(scenario: Object, obj: Object) -> dict[str, Any]:
    found = template_fields.pruned(obj)
    template_fields.without_ttl(found)
    return {"object": found}


_OPERATIONS: Final[Mapping[str, Callable[[Object, Object], dict[str, Any]]]] = {
    "InterpretReplica": _replica,
    "ReviseReplica": _revise,
    "Retain": _retain,
    "AggregateStatus": _aggregate,
    "InterpretDependency": _depend,
    "InterpretStatus": _status,
    "InterpretHealth": _health,
    "Prune": _prune,
}


def names(scenario: Object) -> dict[str, Any]:
    """Every generated name."""
    kind, name, namespace = scenario["objectKind"], scenario["name"], scenario.get("namespace") or ""
    cluster = scenario["cluster"]
    return {
        "binding": object_names.binding(kind, name),
        "bindingKey": object_names.binding_key(namespace, object_names.binding(kind, name)),
        "work": object_names.work(kind, name, namespace),
        "workNamespace": object_names.execution_space(cluster),
        "policy": object_names.policy(namespace, name, scenario["gvk"]),
        "endpointSlice": object_names.endpoint_slice(name, cluster),
        "derivedService": object_names.derived_service(name),
        "reserved": object_names.is_reserved(namespace),
    }
