"""Compiled cluster affinities: labels, fields, names and exclusions, all of which must match."""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.api import selectors
from rota.federation.clusters import Cluster

_OPERATORS = {
    "In": selectors.Operator.IN,
    "NotIn": selectors.Operator.NOT_IN,
    "Exists": selectors.Operator.EXISTS,
    "DoesNotExist": selectors.Operator.DOES_NOT_EXIST,
    "Gt": selectors.Operator.GREATER_THAN,
    "Lt": selectors.Operator.LESS_THAN,
}
_ZONE = "zone"


class Affinity:
    """A ClusterAffinity, ready to match many clusters. A selector that is not valid matches nothing."""

    __slots__ = ("_excluded", "_fields", "_labels", "_names", "_valid", "_zones")

    def __init__(self, affinity: Mapping[str, Any]) -> None:
        self._excluded = frozenset(affinity.get("exclude") or ())
        names: Sequence[str] = affinity.get("clusterNames") or ()
        self._names = frozenset(names) if names else None
        self._labels = selectors.EVERYTHING
        self._fields = selectors.EVERYTHING
        self._zones: tuple[Mapping[str, Any], ...] = ()
        self._valid = True
        try:
            if affinity.get("labelSelector") is not None:
                self._labels = selectors.from_object(affinity["labelSelector"])
            field_selector = affinity.get("fieldSelector")
            if field_selector is not None:
                self._read_fields(field_selector.get("matchExpressions") or ())
        except selectors.SelectorError:
            self._valid = False

    def _read_fields(self, expressions: Sequence[Mapping[str, Any]]) -> None:
        self._zones = tuple(one for one in expressions if one.get("key") == _ZONE)
        found = []
        for one in expressions:
            if one.get("key") == _ZONE:
                continue
            operator = _OPERATORS.get(one.get("operator", ""))
            if operator is None:
                raise selectors.SelectorError(f"{one.get('operator')!r} is not a valid field selector operator")
            found.append(selectors.requirement(one.get("key", ""), operator, one.get("values") or ()))
        self._fields = selectors.combine(found)

    def matches(self, cluster: Cluster) -> bool:
        """Whether a cluster matches."""
        if not self._valid or cluster.name in self._excluded:
            return False
        if self._names is not None and cluster.name not in self._names:
            return False
        return (
            self._labels.matches(cluster.labels)
            and self._fields.matches(cluster.fields)
            and all(_zones_match(one, cluster.zones) for one in self._zones)
        )


def _zones_match(expression: Mapping[str, Any], zones: Sequence[str]) -> bool:
    """A cluster may have several zones: In needs one of them, NotIn forbids each of them."""
    values = expression.get("values") or ()
    operator = expression.get("operator")
    if operator == "In":
        return any(zone in values for zone in zones)
    if operator == "NotIn":
        return not any(zone in values for zone in zones)
    if operator == "Exists":
        return bool(zones)
    return operator == "DoesNotExist" and not zones


def matches(affinity: Mapping[str, Any] | None, cluster: Cluster) -> bool:
    """Whether a cluster matches an affinity in wire form; no affinity matches every cluster."""
    return affinity is None or Affinity(affinity).matches(cluster)
