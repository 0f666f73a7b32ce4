"""What machines cost, where their labels tell it, and what spot machines save.

What a spot machine would cost otherwise is told by a label of its own, or by machines of the same type that stay. Where
neither is there nothing is said to be saved: an unknown price is no price. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.spot.node_readings import Capacity

#: Where a node tells what it costs per hour; the first that holds a number counts.
LABELS: Final = ("rota.dev/price", "node.kubernetes.io/price", "karpenter.sh/price")
#: Where a spot machine tells what it would cost if it stayed.
OTHERWISE: Final = "rota.dev/on-demand-price"
_TYPE: Final = "node.kubernetes.io/instance-type"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What all spot machines save per hour, in whatever money the labels are in."""

    per_hour: float = 0.0
    #: By the names of nodes.
    nodes: Mapping[str, float]
    #: Spot machines of which it is not known.
    unknown: int = 0


def of(node: Document) -> float | None:
    """What a node costs per hour; None if it does not tell."""
    return in_labels(node["metadata"].get("labels") or {})


def in_labels(labels: Mapping[str, str]) -> float | None:
    """What labels say a node costs per hour."""
    return next((price for name in LABELS if (price := _number(labels.get(name))) is not None), None)


def savings(nodes: Iterable[tuple[Document, Capacity]]) -> Savings:
    """What spot machines save beside machines that stay."""
    known = list(nodes)
    usual: dict[str, list[float]] = {}
    for node, capacity in known:
        price, kind = of(node), _labels(node).get(_TYPE)
        if not capacity.leaves and price is not None and kind:
            usual.setdefault(kind, []).append(price)
    saved: dict[str, float] = {}
    unknown = 0
    for node, capacity in known:
        if not capacity.leaves:
            continue
        price, labels = of(node), _labels(node)
        otherwise = _number(labels.get(OTHERWISE))
        others = usual.get(labels.get(_TYPE, ""))
        if otherwise is None and others:
            otherwise = sum(others) / len(others)
        if price is None or otherwise is None:
            unknown += 1
        else:
            saved[node["metadata"]["name"]] = otherwise - price
    return Savings(per_hour=sum(saved.values()), nodes=saved, unknown=unknown)


def _labels(node: Document) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
