"""What the controller writes on a node that goes, and reads again: the node itself is the memory of what was done.

While a node leaves it has a taint of ours, a label that takes it off load balancers, and an annotation that names the
mark by which its notice was known. A notice that is withdrawn takes the annotation off at once, and the rest when it
was quiet for a while: the taint's time says since when. The label's value tells ours from one that was there before.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.api import meta, times
from rota.spot import node_readings
from rota.spot.node_readings import Capacity, Notice, Reading
from rota.spot.node_signals import NodeSignals

#: No mark of a notice: nothing but a notice may keep a node leaving.
LEAVING: Final = "rota.dev/leaving"
LEAVING_FOR: Final = "rota.dev/leaving-for"
EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
_OURS: Final = "rota.dev-leaving"

Node = Mapping[str, Any]


def since(node: Node) -> float | None:
    """Since when the node has our taint; None if it has not."""
    for taint in _taints(node):
        if taint.get("key") == LEAVING:
            added = taint.get("timeAdded")
            return times.parse(added) if added else 0.0
    return None


def handled(node: Node) -> str:
    """The mark of the notice that was acted on; empty if there is none."""
    return str((node["metadata"].get("annotations") or {}).get(LEAVING_FOR) or "") if since(node) is not None else ""


def read(node: Node, marks: NodeSignals, *, now: float) -> Reading:
    """What a node says; a notice that tells no time counts from when it was acted on, also after a restart."""
    begun, mark = since(node), handled(node)
    if begun is not None and mark:
        reading = node_readings.read(node, marks, now=begun)
        if reading.notice is None or reading.notice.mark == mark:
            return reading
    return node_readings.read(node, marks, now=now)


def capacities(known: Iterable[Node], marks: NodeSignals, *, now: float) -> dict[str, Capacity]:
    """How each of some nodes was bought, by name."""
    return {meta.name(node): read(node, marks, now=now).capacity for node in known}


def leaves(node: Node, notice: Notice) -> dict[str, Any]:
    """The patch that makes a node leave: no new pods, no traffic from outside, in one moment."""
    labels = node["metadata"].get("labels") or {}
    return _patch(
        node,
        taints=[*_others(node), _taint(notice.since)],
        labels={} if EXCLUDED in labels else {EXCLUDED: _OURS},
        mark=notice.mark,
    )


def calms(node: Node, *, now: float) -> dict[str, Any]:
    """The patch for a notice that was withdrawn: the node waits, to see whether another comes."""
    return _patch(node, taints=[*_others(node), _taint(now)], labels={}, mark=None)


def stays(node: Node) -> dict[str, Any]:
    """The patch that takes back all that was written."""
    ours = (node["metadata"].get("labels") or {}).get(EXCLUDED) == _OURS
    return _patch(node, taints=_others(node), labels={EXCLUDED: None} if ours else {}, mark=None)


def _patch(
    node: Node, *, taints: list[Mapping[str, Any]], labels: Mapping[str, str | None], mark: str | None
) -> dict[str, Any]:
    # taints are one list: whoever changed it meanwhile must not be undone
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
