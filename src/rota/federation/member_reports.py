"""MemberReports: what the control plane asks the agent of a pull member, and the agent's answer.

A report is in the execution space of its cluster. The control plane writes its spec, which asks for the free capacity
of nodes or for the use of some pods; the agent writes its status. An answer is used only if it has the expected form
and bounded size, since the agent of a hostile member may write anything there.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from rota.api import meta, quantities, times
from rota.federation import object_names
from rota.federation.estimation import amounts
from rota.federation.estimation.member_nodes import NodeCapacity

Object: TypeAlias = Mapping[str, Any]

API_VERSION: Final = "federation.rota.dev/v1alpha1"
KIND: Final = "MemberReport"
#: The name of the report about nodes.
NODES: Final = "nodes"
#: Names the FederatedHPA that a report about pods is for.
AUTOSCALER: Final = "federation.rota.dev/autoscaler"
MOST_NODES: Final = 5_000
MOST_PODS: Final = 2_000
#: The largest answer; a server takes requests of 3 MiB.
LARGEST_BYTES: Final = 1024 * 1024

_Text: TypeAlias = Annotated[str, Meta(max_length=512)]
_Quantities: TypeAlias = Annotated[dict[_Text, _Text], Meta(max_length=64)]
_READY: Final = "Ready"


class Unusable(ValueError):
    """An answer cannot be written, or cannot be used; the message says why."""


class PodUse(NamedTuple):
    """Pods, and what their containers use, with the members of the wire that FederatedHPAs read."""

    pods: Sequence[dict[str, Any]]
    metrics: Sequence[dict[str, Any]]


class _Node(msgspec.Struct, omit_defaults=True):
    name: _Text
    free: _Quantities
    labels: Annotated[dict[_Text, _Text], Meta(max_length=256)] = {}
    taints: Annotated[list[dict[_Text, _Text | None]], Meta(max_length=64)] = []
    unschedulable: bool = False


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: _Text
    deletionTimestamp: _Text | None = None  # noqa: N815 - a name of the wire


class _Resources(msgspec.Struct, omit_defaults=True):
    requests: _Quantities = {}


class _Container(msgspec.Struct, omit_defaults=True):
    name: _Text
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _PodSpec(msgspec.Struct, omit_defaults=True):
    containers: Annotated[list[_Container], Meta(max_length=64)] = []


class _Condition(msgspec.Struct, omit_defaults=True):
    type: _Text
    status: _Text
    lastTransitionTime: _Text | None = None  # noqa: N815


class _PodStatus(msgspec.Struct, omit_defaults=True):
    phase: _Text = ""
    startTime: _Text | None = None  # noqa: N815
    conditions: Annotated[list[_Condition], Meta(max_length=64)] = []


class _Pod(msgspec.Struct, omit_defaults=True):
    metadata: _Metadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Used(msgspec.Struct, omit_defaults=True):
    name: _Text
    usage: _Quantities = {}


class _Metric(msgspec.Struct, omit_defaults=True):
    metadata: _Metadata
    containers: Annotated[list[_Used], Meta(max_length=64)] = []


_Nodes: TypeAlias = Annotated[list[_Node], Meta(max_length=MOST_NODES)]


def about_nodes(cluster: str) -> dict[str, Any]:
    """The report that asks for the free capacity of a cluster's nodes."""
    return _report(cluster, NODES, {"nodes": {}}, {})


def about_pods(cluster: str, autoscaler: str, namespace: str, selector: str) -> dict[str, Any]:
    """The report that asks for the use of pods, for a FederatedHPA (`namespace/name`)."""
    # names of FederatedHPAs may be as long as names of reports
    name = f"pod-metrics-{hashlib.sha256(autoscaler.encode()).hexdigest()[:20]}"
    wanted = {"podMetrics": {"namespace": namespace, "labelSelector": selector}}
    return _report(cluster, name, wanted, {AUTOSCALER: autoscaler})


def _report(cluster: str, name: str, spec: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": object_names.execution_space(cluster), "annotations": annotations}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def written_nodes(capacities: Iterable[NodeCapacity]) -> dict[str, Any]:
    """An agent's answer about nodes."""
    found = [
        _Node(
            one.name,
            {name: _quantity(name, amount) for name, amount in one.free.items()},
            dict(one.labels),
            [dict(taint) for taint in one.taints],
            one.unschedulable,
        )
        for one in capacities
    ]
    return _bounded({"nodes": msgspec.to_builtins(found)}, len(found), MOST_NODES, "nodes")


def nodes(report: Object) -> tuple[NodeCapacity, ...]:
    """The nodes that an agent reports."""
    try:
        found = msgspec.convert(_answer(report, "nodes"), _Nodes)
        return tuple(
            NodeCapacity(one.name, one.labels, tuple(one.taints), one.unschedulable, _amounts(one.free))
            for one in found
        )
    except ValueError as error:
        raise Unusable(f"the agent's report about nodes cannot be used: {error}") from error


def written_pods(use: PodUse) -> dict[str, Any]:
    """An agent's answer about pods."""
    answer = {"pods": list(use.pods), "metrics": list(use.metrics)}
    return _bounded(answer, max(len(use.pods), len(use.metrics)), MOST_PODS, "pods")


def pods(report: Object) -> PodUse:
    """The pods that an agent reports, and what they use."""
    found = pod_use(_answer(report, "pods"), _answer(report, "metrics"))
    _bounded({}, max(map(len, found)), MOST_PODS, "pods")
    return found


def pod_use(pods: object, metrics: object) -> PodUse:
    """What FederatedHPAs read of pods and of their metrics, as a member gave them."""
    try:
        found, measured = msgspec.convert(pods, list[_Pod]), msgspec.convert(metrics, list[_Metric])
        for pod in found:
            _check_pod(pod)
        for metric in measured:
            for container in metric.containers:
                _check(container.usage)
    except ValueError as error:
        raise Unusable(f"pods or metrics of the member cannot be used: {error}") from error
    for pod in found:
        pod.status.conditions = [one for one in pod.status.conditions if one.type == _READY]
    return PodUse(msgspec.to_builtins(found), msgspec.to_builtins(measured))


def _check_pod(pod: _Pod) -> None:
    for container in pod.spec.containers:
        _check(container.resources.requests)
    for time in (pod.status.startTime, *(one.lastTransitionTime for one in pod.status.conditions)):
        if time:
            times.parse(time)


def _check(given: Mapping[str, str]) -> None:
    for name, amount in given.items():
        if quantities.milli(amount) < 0:
            raise ValueError(f"{amount} of {name} is less than nothing")


def _amounts(given: Mapping[str, str]) -> dict[str, int]:
    found = amounts.read(given)
    for name, amount in found.items():
        if amount < 0:
            raise ValueError(f"{given[name]} of {name} is less than nothing")
    return found


def _answer(report: Object, member: str) -> object:
    """A part of a status that answers the present spec."""
    status: Object = report.get("status") or {}
    if status.get("problem"):
        raise Unusable(f"the agent reports: {str(status['problem'])[:512]}")
    if status.get("observedGeneration") != meta.metadata(report).get("generation"):
        raise Unusable("the agent has not answered yet")
    return status.get(member) or []


def _bounded(answer: dict[str, Any], count: int, most: int, what: str) -> dict[str, Any]:
    if count > most:
        raise Unusable(f"the cluster has {count} {what}, and a report holds {most}")
    size = len(msgspec.json.encode(answer))
    if size > LARGEST_BYTES:
        raise Unusable(f"a report about {count} {what} has {size} bytes, and {LARGEST_BYTES} are allowed")
    return answer


def _quantity(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)
