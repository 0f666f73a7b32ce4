"""The categories `validate`, `hpa` and `depend`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rota.federation import dependencies
from rota.federation.autoscaling import pace, usage
from rota.federation.policies import defaults, validation
from rota.federation.scenarios import claims

Object: TypeAlias = Mapping[str, Any]


def validate(scenario: Object) -> dict[str, Any]:
    """What is wrong with a policy, and what defaulting makes of it."""
    problems = sorted(validation.validate(scenario["policy"]), key=lambda one: (one.field, one.type))
    return {
        "errors": [{"field": one.field, "type": one.type} for one in problems],
        "defaulted": defaults.defaulted(scenario["policy"]),
    }


def hpa(scenario: Object) -> dict[str, Any]:
    """How many replicas metrics ask for, or how far a number may change."""
    if scenario["kind"] == "normalize":
        return _normalize(scenario)
    workload = usage.Pods(scenario["pods"], int(scenario["currentReplicas"]), float(scenario["calibration"]))
    calculate = _METRICS.get(scenario["kind"])
    if calculate is None:
        raise ValueError(f"the kind {scenario['kind']!r} is not known; use normalize, {', '.join(_METRICS)}")
    try:
        found = calculate(workload, scenario)
    except usage.NotMeasured as error:
        return {"error": str(error)}
    if found.raw is not None:
        return {"replicas": found.replicas, "utilization": found.usage, "raw": found.raw}
    return {"replicas": found.replicas, "usage": found.usage}


_METRICS: Final[Mapping[str, Callable[[usage.Pods, Object], usage.Answer]]] = {
    "utilization": lambda workload, one: usage.by_utilization(workload, one["metrics"], one["target"], one["resource"]),
    "resource": lambda workload, one: usage.by_average(workload, one["metrics"], one["target"], one["resource"]),
    "pods": lambda workload, one: usage.by_average(workload, one["metrics"], one["target"]),
    "object": lambda workload, one: usage.by_object(workload, one["objectMetric"], one["target"]),
    "objectPerPod": lambda workload, one: usage.by_object_per_pod(workload, one["objectMetric"], one["target"]),
}


def _normalize(scenario: Object) -> dict[str, Any]:
    history = pace.History(
        [(float(one["ageSeconds"]), int(one["replicas"])) for one in scenario.get("recommendations") or ()],
        [(float(one["ageSeconds"]), int(one["replicaChange"])) for one in scenario.get("scaleUpEvents") or ()],
        [(float(one["ageSeconds"]), int(one["replicaChange"])) for one in scenario.get("scaleDownEvents") or ()],
    )
    found = pace.pace(
        scenario["hpa"]["spec"],
        history,
        current=int(scenario["currentReplicas"]),
        wanted=int(scenario["desiredReplicas"]),
        downscale_window_s=float(scenario["downscaleStabilizationSeconds"]),
    )
    return {
        "replicas": found.replicas,
        "conditions": {
            "AbleToScale": {"status": "True", "reason": found.able},
            "ScalingLimited": {"status": "True" if found.limited else "False", "reason": found.limit},
        },
    }


def depend(scenario: Object) -> dict[str, Any]:
    """The binding of a dependency after it was attached, or who needs it after it was detached."""
    owner: Object = scenario["binding"]
    known = [owner, *(scenario.get("bindings") or ())]
    if scenario["kind"] == "detach":
        found = dependencies.detached(owner, scenario["attached"], known)
        return {"requiredBy": found["spec"]["requiredBy"]}
    try:
        found = dependencies.attached(owner, scenario["object"], scenario.get("attached"), known)
    except dependencies.CannotAttach:
        return {"error": True}
    return {"binding": claims.shown(found), "error": False}
