"""Changes of a cluster that a question asks about: more pods, more nodes, drained nodes. Pure.

A change makes another workload of the cluster: pods that lose their place arrive again. What becomes of them is not
decided here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from rota.api import meta, selectors
from rota.api.selectors import Selector, SelectorError
from rota.client import drain_plan
from rota.client.drain_plan import Allowance
from rota.kit.errors import UserError
from rota.simulator.traces import FOREVER, Document, Placed, Trace

#: Kinds with a template for pods, and the field that says how many there are.
_REPLICAS: Final = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "ReplicationController": "replicas",
    "Job": "parallelism",
}
_EVERYTHING: Final = Allowance(ignore_daemonsets=True, delete_emptydir_data=True, force=True)
#: Pods that one question may ask about.
MOST_PODS: Final = 100_000
NO_CONTROLLER: Final = "has no controller that would start it elsewhere"
_HOSTNAME: Final = "kubernetes.io/hostname"
#: Taints that say how a node is now; a new node does not have them.
_PRESENT_STATE: Final = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be different."""

    pods: Sequence[Document] = ()
    nodes: Sequence[Document] = ()
    drained: Sequence[str] = ()
    #: Whether all pods are placed again, apart from those that are bound to their node.
    reschedule: bool = False


class Resident(NamedTuple):
    """A pod that has a node, and a sentence about it."""

    pod: str
    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCluster:
    """The cluster after the changes, before any decision."""

    trace: Trace
    #: Uids of the pods that were asked about.
    asked: frozenset[str]
    #: The former nodes of pods that arrive again, by uid.
    origins: Mapping[str, str]
    #: Pods that stay on a drained node.
    stays: Sequence[Resident] = ()
    #: Pods of drained nodes that are not created again.
    lost: Sequence[Resident] = ()


class _Arrival(NamedTuple):
    name: str
    template: int
    uid: str


def key_of(trace: Trace, template: int, name: str) -> str:
    """namespace/name of a pod."""
    return f"{meta.namespace(trace.templates[template]) or 'default'}/{name}"


def at_present(trace: Trace) -> Trace:
    """The beginning of a workload, without an end: a cluster as it is at one moment."""
    now = np.flatnonzero(trace.at == 0)
    return replace(
        trace,
        at=trace.at[now],
        duration=np.full(len(now), FOREVER),
        template=trace.template[now],
        names=[trace.names[position] for position in now.tolist()],
        uids=[trace.uids[position] for position in now.tolist()] if trace.uids else (),
        placed=[replace(each, duration=FOREVER) for each in trace.placed],
        changes=(),
    )


def changed(trace: Trace, changes: Changes) -> ChangedCluster:
    """The cluster with the changes; pending pods come first, then those that lose their node, then the new ones."""
    _require_nodes(trace, changes.drained)
    drained = frozenset(changes.drained)
    stays: list[Resident] = []
    lost: list[Resident] = []
    kept: list[Placed] = []
    moved: list[Placed] = []
    for each in trace.placed:
        document = trace.templates[each.template]
        plan = drain_plan.plan([dict(document)], _EVERYTHING)
        owned = meta.controller_of(document) is not None
        about = key_of(trace, each.template, each.name), each.node
        if each.node in drained:
            if plan.stay:
                stays.append(Resident(*about, plan.stay[0][1]))
                kept.append(each)
            elif owned:
                moved.append(each)
            else:
                lost.append(Resident(*about, NO_CONTROLLER))
        elif changes.reschedule and not plan.stay:
            moved.append(each)
        else:
            kept.append(each)
    arrivals = [
        _Arrival(name, template, uid)
        for name, template, uid in zip(
            trace.names, trace.template.tolist(), trace.uids or [""] * len(trace), strict=True
        )
    ]
    arrivals += [_Arrival(each.name, each.template, each.uid) for each in moved]
    asked = [
        _Arrival(meta.name(pod), len(trace.templates) + number, f"new pod {number}")
        for number, pod in enumerate(changes.pods)
    ]
    arrivals += asked
    after = replace(
        trace,
        nodes=[*(_cordoned(node) if meta.name(node) in drained else node for node in trace.nodes), *changes.nodes],
        templates=[*trace.templates, *changes.pods],
        at=np.zeros(len(arrivals)),
        duration=np.full(len(arrivals), FOREVER),
        template=np.array([each.template for each in arrivals], dtype=np.int64),
        names=[each.name for each in arrivals],
        uids=[each.uid for each in arrivals],
        placed=kept,
    )
    return ChangedCluster(
        trace=after,
        asked=frozenset(each.uid for each in asked),
        origins={each.uid or key_of(trace, each.template, each.name): each.node for each in moved},
        stays=stays,
        lost=lost,
    )


def budgets_exceeded(trace: Trace, drained: frozenset[str]) -> list[str]:
    """A sentence for each disruption budget that does not allow all evictions of a drain at once."""
    found: list[str] = []
    evicted = [each for each in trace.placed if each.node in drained]
    for kind, budget in trace.objects:
        if kind != "PodDisruptionBudget":
            continue
        try:
            chosen = selectors.from_object((budget.get("spec") or {}).get("selector"))
        except SelectorError:
            continue  # protects nothing, as in preemption
        allowed = (budget.get("status") or {}).get("disruptionsAllowed") or 0
        number = sum(_protects(budget, chosen, trace.templates[each.template]) for each in evicted)
        if number > allowed:
            name = f"{meta.namespace(budget) or 'default'}/{meta.name(budget)}"
            found.append(f"the drain waits for budget {name}: it allows {allowed} of {number} evictions at once")
    return found


def _protects(budget: Document, chosen: Selector, pod: Document) -> bool:
    same = (meta.namespace(budget) or "default") == (meta.namespace(pod) or "default")
    return same and chosen.matches(meta.labels(pod)) and not drain_plan.plan([dict(pod)], _EVERYTHING).stay


def _require_nodes(trace: Trace, names: Iterable[str]) -> None:
    known = {meta.name(node) for node in trace.nodes}
    for name in names:
        if name not in known:
            raise UserError(f'there is no node "{name}" to drain in {trace.name}', "give the name of one of its nodes")


def _cordoned(node: Document) -> Document:
    return {**node, "spec": {**(node.get("spec") or {}), "unschedulable": True}}


def copies_of_pool(trace: Trace, labels: Mapping[str, str], times: int) -> list[dict[str, Any]]:
    """The nodes that are missing until a pool is so many times as large; the pool is the nodes with these labels."""
    pool = [node for node in trace.nodes if labels.items() <= meta.labels(node).items()]
    if not pool:
        told = ",".join(f"{name}={value}" for name, value in labels.items())
        raise UserError(f"no node of {trace.name} has the label {told}", "give a label that some nodes have")
    return [_copy(node, f"{meta.name(node)}-copy-{number}") for number in range(1, times) for node in pool]


def _copy(node: Document, name: str) -> dict[str, Any]:
    """A node like another one, ready and empty."""
    labels = {**meta.labels(node)}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = (node.get("spec") or {}).get("taints") or ()
    return {
        "metadata": {"name": name, "labels": labels, "annotations": dict(meta.annotations(node))},
        "spec": {"taints": [each for each in taints if not str(each.get("key")).startswith(_PRESENT_STATE)]},
        "status": {"allocatable": (node.get("status") or {}).get("allocatable") or {}},
    }


def renamed(nodes: Sequence[Document], taken: Iterable[str]) -> list[Document]:
    """New nodes with names that no other node has."""
    names = set(taken)
    found: list[Document] = []
    for node in nodes:
        name = wanted = meta.name(node)
        number = 1
        while name in names:
            number += 1
            name = f"{wanted}-{number}"
        names.add(name)
        labels = {**meta.labels(node), **({_HOSTNAME: name} if _HOSTNAME in meta.labels(node) else {})}
        found.append({**node, "metadata": {**node["metadata"], "name": name, "labels": labels}})
    return found


def pods_of(found: Iterable[tuple[str, Document]], *, most: int = MOST_PODS) -> list[tuple[str, dict[str, Any]]]:
    """Pods, and the pods that workloads with a template would have, each with a path that names it."""
    pods: list[tuple[str, dict[str, Any]]] = []
    for path, document in found:
        kind = str(document.get("kind") or "")
        if kind == "Pod":
            pods.append((path, dict(document)))
        elif kind in _REPLICAS:
            pods += _pods_of_workload(path, document, _REPLICAS[kind], most - len(pods))
        else:
            known = ", ".join(("Pod", *_REPLICAS))
            raise UserError(f"{path}: {kind or 'an object without a kind'} has no pods", f"give one of {known}")
    return pods


def _pods_of_workload(path: str, document: Document, field: str, most: int) -> list[tuple[str, dict[str, Any]]]:
    spec = document.get("spec") or {}
    template, number = spec.get("template") or {}, spec.get(field)
    number = 1 if number is None else number
    if not isinstance(template, dict) or not isinstance(number, int) or number < 0:
        raise UserError(f"{path}.spec: template or {field} is not what it should be", "give a valid workload")
    if number > most:
        raise UserError(f"{path}.spec.{field}: these are too many pods", f"the limit of one question is {MOST_PODS:,}")
    name, namespace = meta.name(document), meta.namespace(document)
    whole = {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {**(template.get("metadata") or {}), **({"namespace": namespace} if namespace else {})},
    }
    return [
        (f"{path}.spec.template", {**whole, "metadata": {**whole["metadata"], "name": f"{name}-{position}"}})
        for position in range(number)
    ]
