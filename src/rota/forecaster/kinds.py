"""NodeForecast, ClusterState and VerticalPodAutoscaler: their resources, and definitions for servers that lack them."""

from collections.abc import Sequence
from typing import Any, Final

from rota.forecast import cluster_state_objects, node_series

FORECASTS: Final = node_series.FORECASTS
CLUSTER_STATES: Final = cluster_state_objects.CLUSTER_STATES
NODE_METRICS: Final = ("metrics.k8s.io", "v1beta1", "nodes")
POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
AUTOSCALERS: Final = ("autoscaling.k8s.io", "v1", "verticalpodautoscalers")
CHECKPOINTS: Final = ("autoscaling.k8s.io", "v1", "verticalpodautoscalercheckpoints")
LIMIT_RANGES: Final = ("", "v1", "limitranges")
NODES: Final = ("", "v1", "nodes")
PODS: Final = ("", "v1", "pods")
DEFINITIONS: Final = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")

_TEXT: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_NUMBER: Final = {"type": "number"}


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of NodeForecast."""
    record = {"forecasts": _INTEGER, "violations": _INTEGER, "severity": _NUMBER, "savings": _NUMBER}
    texts = ("resource", "basis", "used", "mean", "deviation", "peak", "requested")
    resource = {
        "type": "object",
        "required": ["resource"],
        "properties": {
            **dict.fromkeys(texts, _TEXT),
            "history": {"type": "array", "items": _TEXT},
            "record": {"type": "object", "properties": record},
        },
    }
    status = {
        "type": "object",
        "properties": {
            "observedTime": {"type": "string", "format": "date-time"},
            "source": _TEXT,
            "horizonSeconds": _INTEGER,
            "intervalSeconds": _INTEGER,
            "resources": {"type": "array", "items": resource},
        },
    }
    return _definition(FORECASTS, "NodeForecast", "nf", "Cluster", {"status": status})


def cluster_state_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of ClusterState."""
    amounts = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    weight = {"type": "number", "exclusiveMinimum": True, "minimum": 0}
    shape = {
        "type": "object",
        "required": ["name", "requests"],
        "properties": {"name": {"type": "string", "minLength": 1}, "requests": amounts, "weight": weight},
    }
    watts = {"type": "number", "minimum": 0, "maximum": 1e9}
    model = {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "model": {"type": "string", "enum": ["linear", "fan", "table", "exponential", "sockets"]},
            **dict.fromkeys(("idle", "full", "sleepWatts", "k1"), watts),
            "k0": {**watts, "minimum": -1e9},
            "k2": {**watts, "maximum": 1},
            "coresPerSocket": {"type": "integer", "minimum": 1},
            "watts": {"type": "array", "minItems": 2, "items": watts},
        },
    }
    spec = {
        "type": "object",
        "properties": {
            "includeTainted": {"type": "boolean"},
            "nodeSelector": {"type": "object", "additionalProperties": _TEXT},
            "powerModels": _list(model),
            "shapes": {**_list(shape), "maxItems": 32},
        },
    }
    # The controller is the only writer of the status.
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _definition(CLUSTER_STATES, "ClusterState", "cstate", "Cluster", {"spec": spec, "status": status})


def autoscaler_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of VerticalPodAutoscaler, with the fields of VPA's own one."""
    amounts = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    target = {"type": "object", "properties": dict.fromkeys(("apiVersion", "kind", "name"), _TEXT)}
    policy = {
        "type": "object",
        "properties": {
            "containerName": _TEXT,
            "mode": {"type": "string", "enum": ["Auto", "Off"]},
            "minAllowed": amounts,
            "maxAllowed": amounts,
            "controlledResources": {"type": "array", "items": {"type": "string", "enum": ["cpu", "memory"]}},
            "controlledValues": {"type": "string", "enum": ["RequestsAndLimits", "RequestsOnly"]},
        },
    }
    requirement = {
        "type": "object",
        "required": ["resources", "changeRequirement"],
        "properties": {
            "resources": _list(_TEXT),
            "changeRequirement": {
                "type": "string",
                "enum": ["TargetHigherThanRequests", "TargetLowerThanRequests"],
            },
        },
    }
    modes = ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]
    spec = {
        "type": "object",
        "required": ["targetRef"],
        "properties": {
            "targetRef": {**target, "required": ["kind", "name"]},
            "updatePolicy": {
                "type": "object",
                "properties": {
                    "updateMode": {"type": "string", "enum": modes},
                    "minReplicas": {"type": "integer", "minimum": 1},
                    "evictionRequirements": _list(requirement),
                },
            },
            "resourcePolicy": {"type": "object", "properties": {"containerPolicies": _list(policy)}},
        },
    }
    recommendation = {
        "type": "object",
        "properties": {
            "containerName": _TEXT,
            **dict.fromkeys(("lowerBound", "target", "uncappedTarget", "upperBound"), amounts),
        },
    }
    condition = {
        "type": "object",
        "properties": dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), _TEXT),
    }
    recommended = {"type": "object", "properties": {"containerRecommendations": _list(recommendation)}}
    status = {"type": "object", "properties": {"conditions": _list(condition), "recommendation": recommended}}
    made = _definition(
        AUTOSCALERS, "VerticalPodAutoscaler", "vpa", "Namespaced", {"spec": spec, "status": status}, required=["spec"]
    )
    return _approved(made)


def checkpoint_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of VerticalPodAutoscalerCheckpoint, whose status is no subresource, as in VPA's."""
    time = {"type": "string", "format": "date-time", "nullable": True}
    histogram = {
        "type": "object",
        "properties": {
            "referenceTimestamp": time,
            "totalWeight": _NUMBER,
            "bucketWeights": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    spec = {"type": "object", "properties": dict.fromkeys(("vpaObjectName", "containerName"), _TEXT)}
    status = {
        "type": "object",
        "properties": {
            "version": _TEXT,
            **dict.fromkeys(("lastUpdateTime", "firstSampleStart", "lastSampleStart"), time),
            "totalSamplesCount": _INTEGER,
            "cpuHistogram": histogram,
            "memoryHistogram": histogram,
        },
    }
    properties = {"spec": spec, "status": status}
    made = _definition(CHECKPOINTS, "VerticalPodAutoscalerCheckpoint", "vpacheckpoint", "Namespaced", properties)
    del made["spec"]["versions"][0]["subresources"]
    return _approved(made)


def _approved(made: dict[str, Any]) -> dict[str, Any]:
    """API servers take definitions in this protected group only with the approval of its owners, which VPA's has."""
    approval = "https://github.com/kubernetes/kubernetes/pull/63797"
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    return made


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _definition(
    target: tuple[str, str, str],
    kind: str,
    short: str,
    scope: str,
    properties: dict[str, Any],
    *,
    required: Sequence[str] = (),
) -> dict[str, Any]:
    group, version, plural = target
    schema = {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [short]},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
