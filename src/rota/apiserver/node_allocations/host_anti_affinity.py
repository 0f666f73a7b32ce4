"""Required anti-affinity between pods of one node, as the binding transaction checks it. Pure.

Two schedulers may each place one of two pods that exclude each other on the same node. The node's ledger key orders
their bindings, so the second one sees the first and is refused. Larger domains have no such key: pods with terms about
them are given to one scheduler (`scheduler/sharding`). Terms that select namespaces by their labels are left to the
scheduler, since the transaction does not read namespaces; those that select all namespaces are checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import selectors
from rota.api.selectors import Selector

HOSTNAME: Final = "kubernetes.io/hostname"
#: What a stored pod has if it has a term; other pods are not decoded.
MARK: Final = b'"podAntiAffinity"'


@dataclass(frozen=True, slots=True)
class HostTerm:
    """Pods that must not be on the node of the pod that has the term."""

    selector: Selector
    #: Namespaces by name; empty for the pod's own.
    namespaces: frozenset[str] = frozenset()
    everywhere: bool = False

    def excludes(self, own_namespace: str, other: "Labelled") -> bool:
        """Whether a pod with this term in a namespace excludes another pod."""
        inside = other.namespace in self.namespaces if self.namespaces else other.namespace == own_namespace
        return (self.everywhere or inside) and self.selector.matches(other.labels)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A pod as terms select it."""

    namespace: str
    labels: Mapping[str, str]


class _Metadata(msgspec.Struct, gc=False):
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: _Metadata


_glance: Final = msgspec.json.Decoder(_Pod).decode


def labelled(value: bytes) -> Labelled:
    """A stored pod as terms select it."""
    metadata = _glance(value).metadata
    return Labelled(metadata.namespace, metadata.labels or {})


def terms(required: Sequence[Mapping[str, Any]]) -> tuple[HostTerm, ...]:
    """The terms about nodes among the required anti-affinity terms of a pod."""
    found = []
    for one in required:
        by_labels = one.get("namespaceSelector")
        if one.get("topologyKey") != HOSTNAME or by_labels:
            continue
        found.append(
            HostTerm(
                selectors.from_object(one.get("labelSelector")),
                frozenset(one.get("namespaces") or ()),
                everywhere=by_labels is not None,
            )
        )
    return tuple(found)


def namespace_of(key: str) -> str:
    """The namespace of a pod, from its key in the store."""
    return key.rsplit("/", 2)[-2]
