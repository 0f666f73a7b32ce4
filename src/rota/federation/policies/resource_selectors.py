"""Which policy matches a resource best."""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from rota.api import meta, selectors

Object: TypeAlias = Mapping[str, Any]


class Match(enum.IntEnum):
    """How closely a selector means a resource."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


def match(resource: Object, selector: Object) -> Match:
    """How closely one resource selector means a resource."""
    if (resource.get("apiVersion") or "") != (selector.get("apiVersion") or ""):
        return Match.NONE
    if (resource.get("kind") or "") != (selector.get("kind") or ""):
        return Match.NONE
    namespace, name = selector.get("namespace") or "", selector.get("name") or ""
    if namespace and namespace != meta.namespace(resource):
        return Match.NONE
    if name:
        return Match.NAME if name == meta.name(resource) else Match.NONE
    if selector.get("labelSelector") is None:
        return Match.KIND
    try:
        labels = selectors.from_object(selector["labelSelector"])
    except selectors.SelectorError:
        return Match.NONE
    return Match.LABELS if labels.matches(meta.labels(resource)) else Match.NONE


def best_match(resource: Object, resource_selectors: Iterable[Object]) -> Match:
    """How closely the best of several selectors means a resource."""
    return max((match(resource, one) for one in resource_selectors), default=Match.NONE)


def priority(policy: Object) -> int:
    """The explicit priority of a policy."""
    return int((policy.get("spec") or {}).get("priority") or 0)


def selects(policy: Object, resource: Object) -> bool:
    """Whether a policy means a resource."""
    return best_match(resource, (policy.get("spec") or {}).get("resourceSelectors") or ()) > Match.NONE


def best(resource: Object, policies: Iterable[Object]) -> Object | None:
    """The policy of the highest priority, then of the closest match, then of the lowest name; none that is deleted."""
    found: Object | None = None
    rank: tuple[int, int, str] | None = None
    for policy in policies:
        if meta.is_deleting(policy):
            continue
        closeness = best_match(resource, (policy.get("spec") or {}).get("resourceSelectors") or ())
        if closeness is Match.NONE:
            continue
        mine = (-priority(policy), -int(closeness), meta.name(policy))
        if rank is None or mine < rank:
            found, rank = policy, mine
    return found
