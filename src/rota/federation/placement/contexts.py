"""What filters and selection see of one attempt: the request, the clusters, the term that is tried, other bindings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.federation.placement.fleet import Fleet
from rota.federation.placement.requests import Request, Term


@dataclass(frozen=True, slots=True)
class Other:
    """Another binding of the same namespace, as far as workload affinity looks at it."""

    affinity_group: str
    anti_affinity_group: str
    clusters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt to place a request."""

    request: Request
    fleet: Fleet
    term: Term | None
    #: The name of the term as the binding's status will show it; it decides on overflow.
    observed: str
    #: The clusters that have the resource now.
    targets: int
    others: Sequence[Other] = ()
    #: What accurate estimators answered, by cluster; -1 and absent mean no answer.
    estimates: Mapping[str, int] | None = None


def others(request: Request, name: str, bindings: Sequence[Mapping[str, Any]]) -> tuple[Other, ...]:
    """The bindings of the request's namespace that have a group, without its own."""
    found = []
    for binding in bindings:
        metadata, spec = binding.get("metadata") or {}, binding.get("spec") or {}
        groups = spec.get("workloadAffinityGroups")
        if groups is None or (metadata.get("namespace") or "") != request.namespace or metadata.get("name") == name:
            continue
        found.append(
            Other(
                affinity_group=groups.get("affinityGroup") or "",
                anti_affinity_group=groups.get("antiAffinityGroup") or "",
                clusters=frozenset(target.get("name", "") for target in spec.get("clusters") or ()),
            )
        )
    return tuple(found)
