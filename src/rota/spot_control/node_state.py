"""What the controller writes on a node with a notice and reads back: the node is the only record of what was done.

The node gets a taint, a label that removes it from load balancers, and an annotation that names the signal of its
notice. When a notice is withdrawn, the annotation is removed at once, and the rest after a quiet period, counted from
the taint's time. The label's value distinguishes the controller's label from one that existed before.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.api import meta, times
from rota.spot import node_readings
from rota.spot.node_readings import Capacity, Notice, Reading
from rota.spot.node_signals import NodeSignals

#: The controller's own taint is not a signal of a notice: only a notice may keep a node leaving.
LEAVING: Final = "rota.dev/leaving"
LEAVING_FOR: Final = "rota.dev/leaving-for"
EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
_OURS: Final = "rota.dev-leaving"

Node = Mapping[str, Any]


def since(node: Node) -> float | None:
    """Since when the node has the controller's taint; None if it has not."""
    for taint in _taints(node):
        if taint.get("key") == LEAVING:
            added = taint.get("timeAdded")
            return times.parse(added) if added else 0.0
    return None


def handled(node: Node) -> str:
    """The signal of the notice that was handled; empty if there is none."""
    return str((node["metadata"].get("annotations") or {}).get(LEAVING_FOR) or "") if since(node) is not None else ""


def read(node: Node, marks: NodeSignals, *, now: float) -> Reading:
    """A node's reading; a notice without a time counts from when it was handled, also after a restart."""
    begun, mark = since(node), handled(node)
    if begun is not None and mark:
        reading = node_readings.read(node, marks, now=begun)
        if reading.notice is None or reading.notice.mark == mark:
            return reading
    return node_readings.read(node, marks, now=now)


def capacities(known: Iterable[Node], marks: NodeSignals, *, now: float) -> dict[str, Capacity]:
    """The capacity type of each node, by name."""
    return {meta.name(node): read(node, marks, now=now).capacity for node in known}


def leaves(node: Node, notice: Notice) -> dict[str, Any]:
    """The patch for a node with a notice: no new pods and no traffic from outside, in one write."""
    labels = node["metadata"].get("labels") or {}
    return _patch(
        node,
        taints=[*_others(node), _taint(notice.since)],
        labels={} if EXCLUDED in labels else {EXCLUDED: _OURS},
        mark=notice.mark,
    )


def calms(node: Node, *, now: float) -> dict[str, Any]:
    """The patch for a withdrawn notice: the quiet period starts."""
    return _patch(node, taints=[*_others(node), _taint(now)], labels={}, mark=None)


def stays(node: Node) -> dict[str, Any]:
    """The patch that removes everything that the controller wrote."""
    ours = (node["metadata"].get("labels") or {}).get(EXCLUDED) == _OURS
    return _patch(node, taints=_others(node), labels={EXCLUDED: None} if ours else {}, mark=None)


def _patch(
    node: Node, *, taints: list[Mapping[str, Any]], labels: Mapping[str, str | None], mark: str | None
) -> dict[str, Any]:
    # taints are one list: concurrent changes by other clients must not be reverted
    metadata: dict[str, Any] = {
        "uid": meta.uid(node),
        "resourceVersion": node["metadata"]["resourceVersion"],
        "annotations": {LEAVING_FOR: mark},
    }
    if labels:
        metadata["labels"] = dict(labels)
    return {"metadata": metadata, "spec": {"taints": taints or None}}


def _taint(now: float) -> dict[str, Any]:
    return {"key": LEAVING, "effect": "NoSchedule", "timeAdded": times.format_time(now)}


def _others(node: Node) -> list[Mapping[str, Any]]:
    return [one for one in _taints(node) if one.get("key") != LEAVING]


def _taints(node: Node) -> list[Mapping[str, Any]]:
    return list((node.get("spec") or {}).get("taints") or ())
