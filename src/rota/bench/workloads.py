"""The cases of the scheduling benchmark: those of kube-scheduler's own benchmark that run on any API server.

Sizes and shapes are those of upstream's scheduler_perf: nodes of 4 cores, 32 GiB and 110 pods; pods of 100 millicores
and 500 MiB. A case names how many nodes there are, how many pods are placed before the clock starts, and how many are
measured. Runs on Rota and on stock Kubernetes create exactly these objects.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

Document = dict[str, Any]

NAMESPACE: Final = "bench"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("moon-1", "moon-2", "moon-3")


def node(number: int) -> Document:
    """One of the nodes, in one of three zones."""
    name = f"node-{number:05}"
    offered = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: ZONES[number % 3]}},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name: str, *, labels: dict[str, str] | None = None, cpu: str = "100m", **spec: Any) -> Document:
    amounts = {"cpu": cpu, "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.1",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    metadata = {"name": name, "namespace": NAMESPACE, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def identical(name: str, number: int) -> Document:
    """All the same (SchedulingBasic)."""
    return _pod(name)


def distinct(name: str, number: int) -> Document:
    """No two alike."""
    labels = {"own": str(number)}
    return _pod(
        name, labels=labels, cpu=f"{50 + number % 100}m", tolerations=[{"key": f"own-{number}", "operator": "Exists"}]
    )


def spread(name: str, number: int) -> Document:
    """Evenly over the zones, or not at all (TopologySpreading)."""
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return _pod(name, labels={"color": "blue"}, topologySpreadConstraints=[constraint])


def apart(name: str, number: int) -> Document:
    """Never two on one node (SchedulingPodAntiAffinity)."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"color": "green"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return _pod(name, labels={"color": "green"}, affinity=affinity)


class Case(Struct, frozen=True, kw_only=True):
    """Nodes, existing pods, and measured pods."""

    name: str
    nodes: int
    before: int = 0
    pods: int
    template: Callable[[str, int], Document]

    @property
    def label(self) -> str:
        """The name of its result."""
        return f"end to end, {self.name}, {self.nodes:,} nodes, {self.pods:,} pods"


CASES: Final = (
    Case(name="identical pods", nodes=500, before=500, pods=1_000, template=identical),
    Case(name="distinct pods", nodes=500, before=500, pods=1_000, template=distinct),
    Case(name="identical pods", nodes=5_000, before=1_000, pods=10_000, template=identical),
    Case(name="hard zone spread", nodes=5_000, before=1_000, pods=5_000, template=spread),
    Case(name="required anti-affinity", nodes=5_000, before=1_000, pods=2_000, template=apart),
)
QUICK: Final = (
    Case(name="identical pods", nodes=500, before=100, pods=1_000, template=identical),
    Case(name="distinct pods", nodes=500, before=100, pods=500, template=distinct),
    Case(name="hard zone spread", nodes=500, before=100, pods=500, template=spread),
    Case(name="required anti-affinity", nodes=1_000, before=100, pods=500, template=apart),
)
