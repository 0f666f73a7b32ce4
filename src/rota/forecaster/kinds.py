"""NodeForecast: its resource, and its definition for API servers other than Rota's."""

from typing import Any, Final

from rota.forecast import node_series

FORECASTS: Final = node_series.FORECASTS
NODE_METRICS: Final = ("metrics.k8s.io", "v1beta1", "nodes")
NODES: Final = ("", "v1", "nodes")
PODS: Final = ("", "v1", "pods")
DEFINITIONS: Final = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")

_TEXT: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_NUMBER: Final = {"type": "number"}


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of NodeForecast."""
    group, version, plural = FORECASTS
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
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": "NodeForecast", "plural": plural, "singular": "nodeforecast", "shortNames": ["nf"]},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}},
                }
            ],
        },
    }
