"""The question of a WhatIf object and its answer as a status. Pure.

Everything that a client may write is limited here: how many pods and nodes a question has, and which plugins its
configuration names. Text of a client never makes the server import a module.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import meta
from rota.columns.objects import MalformedObjectError
from rota.kit.errors import UserError
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.snapshot import scenarios
from rota.simulator import cluster_changes, what_if
from rota.simulator.cluster_changes import Changes, Resident
from rota.simulator.traces import Document, Trace
from rota.simulator.what_if import Answer, Fate, Question

MOST_PODS: Final = 10_000
MOST_NODES: Final = 10_000
_PODS: Final = "110"


def question(spec: Mapping[str, Any], cluster: Trace, present: Loaded) -> Question:
    """The question of a spec about a cluster whose scheduler has a configuration; UserError names a faulty field."""
    nodes = _nodes(spec, cluster)
    if not cluster.nodes and not nodes:
        raise UserError("the cluster has no nodes", "add some with spec.addNodes")
    given = spec.get("configuration")
    counted, most = _counted(spec.get("count"), cluster)
    return Question(
        cluster=cluster,
        loaded=present if given is None else _configuration(given, present),
        baseline=present,
        changes=Changes(
            pods=_pods("spec.pods", spec.get("pods") or (), cluster),
            nodes=nodes,
            drained=list(dict.fromkeys(spec.get("drain") or ())),
            reschedule=bool(spec.get("reschedule")),
        ),
        counted=counted,
        most=most,
    )


def _pods(path: str, given: Iterable[object], cluster: Trace) -> list[dict[str, Any]]:
    classes = [document for kind, document in cluster.objects if kind == "PriorityClass"]
    try:
        found = scenarios.flattened((f"{path}[{position}]", each) for position, each in enumerate(given))
        pods = cluster_changes.pods_of(found, most=MOST_PODS)
        if len(pods) > MOST_PODS:
            raise UserError(f"{path}: {len(pods):,} pods are too many", f"the limit of one question is {MOST_PODS:,}")
        return [scenarios.checked_incoming(pod, classes, path=where) for where, pod in pods]
    except MalformedObjectError as error:
        raise UserError(str(error)) from error


def _counted(given: Mapping[str, Any] | None, cluster: Trace) -> tuple[Document | None, int]:
    if given is None:
        return None, what_if.MOST
    most = given.get("most")
    most = what_if.MOST if most is None else most
    if not 1 <= most <= what_if.MOST:
        raise UserError(f"spec.count.most: must be from 1 to {what_if.MOST}, not {most}")
    pod, requests = given.get("pod"), given.get("requests")
    if (pod is None) == (requests is None):
        raise UserError("spec.count: give either requests or pod")
    if pod is None:
        container = {"name": "main", "resources": {"requests": requests}}
        pod = {"kind": "Pod", "metadata": {"name": "more"}, "spec": {"containers": [container]}}
    found = _pods("spec.count.pod", [pod], cluster)
    if not found:
        raise UserError("spec.count.pod: it has no pod", "give the manifest of a pod or of a workload")
    return found[0], most


def _nodes(spec: Mapping[str, Any], cluster: Trace) -> Sequence[Document]:
    found: list[Document] = []
    for position, each in enumerate(spec.get("addNodes") or ()):
        path = f"spec.addNodes[{position}]"
        number = each.get("number") or 0
        _require_times(f"{path}.number", number, MOST_NODES - len(found))
        if not each.get("allocatable"):
            raise UserError(f"{path}.allocatable: is required", "write what pods may take, such as cpu and memory")
        found += [_node(each, each.get("name") or "node", first) for first in range(number)]
    for position, each in enumerate(spec.get("scalePools") or ()):
        path = f"spec.scalePools[{position}]"
        times, labels = each.get("times") or 0, each.get("matchLabels") or {}
        if not labels:
            raise UserError(f"{path}.matchLabels: is required", "write the label of the pool's nodes")
        _require_times(f"{path}.times", times, (MOST_NODES - len(found)) // max(len(cluster.nodes), 1) + 1)
        found += cluster_changes.copies_of_pool(cluster, labels, times)
    return cluster_changes.renamed(found, map(meta.name, cluster.nodes))


def _require_times(path: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise UserError(
            f"{path}: must be from 1 to {most}, not {number}", f"a question adds {MOST_NODES:,} nodes at most"
        )


def _node(given: Mapping[str, Any], prefix: str, position: int) -> Document:
    name = f"{prefix}-{position}"
    labels = {"kubernetes.io/hostname": name, **(given.get("labels") or {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"pods": _PODS, **given["allocatable"]}},
    }


def _configuration(given: object, present: Loaded) -> Loaded:
    """Another configuration, with plugins of the one in force, built-in ones and those of installed packages."""
    path = "spec.configuration"
    try:
        settings = resolution.read(given)
        for place, _, name in third_party.plugin_names(settings):
            if ":" in name:
                raise UserError(
                    f'{path}.{place}: "{name}" would be imported by the server',
                    "name a plugin that the server has, or ask rota what-if with --scheduler-config",
                )
        return third_party.load_settings(settings, present.registry)
    except ConfigurationError as error:
        raise UserError("; ".join(f"{path}.{fault}" for fault in error.faults)) from error


# --- the answer -------------------------------------------------------------------------------------------------------


def status(answer: Answer) -> dict[str, Any]:
    """The status of the object; absent fields are empty."""
    found: dict[str, Any] = {
        "placed": list(map(_pod, answer.placed())),
        "moves": list(map(_pod, answer.moves())),
        "waits": list(map(_pod, answer.waiting())),
        "preempted": list(map(_pod, answer.preempted())),
        "stays": list(map(_resident, answer.stays)),
        "lost": list(map(_resident, answer.lost)),
        "allocated": [
            {"resource": name, "before": round(1000 * old), "after": round(1000 * new)}
            for name, (old, new) in answer.allocated.items()
        ],
        "notes": list(answer.notes),
    }
    found = {name: each for name, each in found.items() if each}
    found["nodes"] = answer.nodes
    if answer.fits is not None:
        found["fits"] = answer.fits
    if answer.count is not None:
        count = answer.count
        found["count"] = {
            "number": count.number,
            "atLeast": count.at_least,
            **({"why": count.why} if count.why else {}),
        }
    return found


def _pod(fate: Fate) -> dict[str, Any]:
    told = {"from": fate.source, "to": fate.target, "why": fate.why, "preemptor": fate.preemptor}
    found = {"pod": fate.pod, "cause": fate.cause.value} | {name: each for name, each in told.items() if each}
    return found | ({"unchanged": True} if fate.unchanged else {})


def _resident(resident: Resident) -> dict[str, Any]:
    return resident._asdict()
