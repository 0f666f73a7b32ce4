"""Prices of machines from their labels, and the savings of spot machines. Pure.

The on-demand price of a spot machine comes from a label of its own, or from on-demand machines of the same type.
Without either, no savings are reported: an unknown price is not zero.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.spot.node_readings import Capacity

#: Labels with the price per hour; the first that holds a number counts.
LABELS: Final = ("rota.dev/price", "node.kubernetes.io/price", "karpenter.sh/price")
#: Labels of a spot machine with its on-demand price.
OTHERWISE: Final = "rota.dev/on-demand-price"
_TYPE: Final = "node.kubernetes.io/instance-type"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What all spot machines save per hour, in the currency of the labels."""

    per_hour: float = 0.0
    #: By node name.
    nodes: Mapping[str, float]
    #: Spot machines with unknown savings.
    unknown: int = 0


def of(node: Document) -> float | None:
    """The price of a node per hour; None if unknown."""
    return in_labels(node["metadata"].get("labels") or {})


def in_labels(labels: Mapping[str, str]) -> float | None:
    """The price per hour from labels."""
    return next((price for name in LABELS if (price := _number(labels.get(name))) is not None), None)


def savings(nodes: Iterable[tuple[Document, Capacity]]) -> Savings:
    """What spot machines save in comparison with on-demand machines."""
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
