"""A queue, as a session reads it."""

from collections.abc import Mapping
from typing import Any, Final

from rota.scheduler.batch import amounts

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
ROOT: Final = "root"


class Queue:
    """What a queue is entitled to, and its place in a tree."""

    __slots__ = (
        "annotations",
        "capability",
        "created",
        "deserved",
        "fifo",
        "guarantee",
        "hierarchy",
        "hierarchy_weights",
        "name",
        "node_groups",
        "object",
        "open",
        "parent",
        "priority",
        "reclaimable",
        "weight",
    )

    def __init__(self, document: Mapping[str, Any]) -> None:
        meta, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
        self.object: Final = document
        self.name: Final[str] = meta["name"]
        self.created: Final[str] = meta.get("creationTimestamp") or ""
        self.annotations: Final[Mapping[str, str]] = meta.get("annotations") or {}
        self.weight: Final[int] = spec.get("weight") or 0
        self.priority: Final[int] = spec.get("priority") or 0
        self.parent: Final[str] = spec.get("parent") or ""
        reclaimable = spec.get("reclaimable")
        self.reclaimable: Final[bool] = True if reclaimable is None else reclaimable
        #: Whether no group may start before an older one that waits.
        self.fifo: Final[bool] = spec.get("dequeueStrategy") == "fifo"
        self.open: Final[bool] = status.get("state") == "Open"
        self.capability: Final[Mapping[str, Any]] = spec.get("capability") or {}
        self.guarantee: Final = amounts.read((spec.get("guarantee") or {}).get("resource"))
        self.deserved: Final = amounts.read(spec.get("deserved"))
        self.node_groups: Final[Mapping[str, Any] | None] = spec.get("affinity")
        self.hierarchy: Final[str] = self.annotations.get(HIERARCHY, "")
        self.hierarchy_weights: Final[str] = self.annotations.get(HIERARCHY_WEIGHTS, "")

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"
