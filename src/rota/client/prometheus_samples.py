"""Answers of Prometheus as objects of metrics.k8s.io, so that both sources of measurements look alike. Pure.

The queries are for the metrics of cAdvisor, which kubelets serve. `id="/"` is the whole machine. Prometheus names the
machine of a sample by a label that its configuration chooses; kube-prometheus names it `node`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api.resources import CPU, MEMORY

Object = Mapping[str, Any]

_CONTAINERS: Final = 'container!="",container!="POD"'
_LEAST_WINDOW_S: Final = 120


class AnswerError(Exception):
    """An answer that is not the result of an instant query."""


def node_queries(label: str, every_s: float) -> dict[str, str]:
    """The queries for the use of nodes, by resource; in cores and bytes."""
    return {
        CPU: f'sum by ({label}) (rate(container_cpu_usage_seconds_total{{id="/"}}[{_window(every_s)}]))',
        MEMORY: f'sum by ({label}) (container_memory_working_set_bytes{{id="/"}})',
    }


def pod_queries(every_s: float) -> dict[str, str]:
    """The queries for the use of containers, by resource."""
    by = "namespace, pod, container"
    return {
        CPU: f"sum by ({by}) (rate(container_cpu_usage_seconds_total{{{_CONTAINERS}}}[{_window(every_s)}]))",
        MEMORY: f"sum by ({by}) (container_memory_working_set_bytes{{{_CONTAINERS}}})",
    }


def vector(answer: Any) -> list[tuple[Mapping[str, str], float]]:
    """The labels and values of an instant query; values that are no amounts are left out."""
    try:
        if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
            raise AnswerError(str(answer.get("error") or answer["status"]))
        samples = [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise AnswerError(f"{type(problem).__name__}: {problem}") from None
    return [(labels, value) for labels, value in samples if math.isfinite(value) and value >= 0]


def node_metrics(label: str, found: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]) -> list[dict[str, Any]]:
    """NodeMetrics from the samples of each resource."""
    usage: dict[str, dict[str, str]] = {}
    for resource, samples in found.items():
        for labels, value in samples:
            if labels.get(label):
                usage.setdefault(labels[label], {})[resource] = _quantity(resource, value)
    return [{"metadata": {"name": name}, "usage": used} for name, used in usage.items()]


def pod_metrics(found: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]) -> list[dict[str, Any]]:
    """PodMetrics from the samples of each resource."""
    usage: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for resource, samples in found.items():
        for labels, value in samples:
            namespace, pod, container = (labels.get(key, "") for key in ("namespace", "pod", "container"))
            if namespace and pod and container:
                containers = usage.setdefault((namespace, pod), {})
                containers.setdefault(container, {})[resource] = _quantity(resource, value)
    return [
        {
            "metadata": {"name": pod, "namespace": namespace},
            "containers": [{"name": name, "usage": used} for name, used in containers.items()],
        }
        for (namespace, pod), containers in usage.items()
    ]


def _quantity(resource: str, value: float) -> str:
    return f"{math.ceil(value * 1e9)}n" if resource == CPU else str(math.ceil(value))


def _window(every_s: float) -> str:
    """At least two samples of a usual scrape interval are in the range of a rate."""
    return f"{max(math.ceil(2 * every_s), _LEAST_WINDOW_S)}s"
