"""LimitRanges: default requests and limits of containers, and bounds for all of them.

Mirrors `plugin/pkg/admission/limitranger` of Kubernetes 1.36: pods are checked when they are created, claims always.
Defaults are set among the plugins that change objects; bounds are checked after validation, when policies and webhooks
have made their changes. LimitRanges apply in the order of their names; in stock servers they have no certain order.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from rota.api import errors, fields, quantities, quotas
from rota.api.identifiers import GroupResource
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
RANGES: Final = GroupResource("", "limitranges")
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_NOTHING: Final[Mapping[str, Any]] = {}


class _Ranges:
    """The LimitRanges of a namespace."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({RANGES})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy

    async def of(self, at: Attributes) -> list[list[Object]]:
        """The limits of each LimitRange, in the order of names."""
        if self._copy.following:
            if not self._copy.any(at.namespace):
                return []
            found = sorted(self._copy.all(at.namespace), key=lambda one: str(one["metadata"]["name"]))
        else:
            found = [one.object for one in await self._registry.list(self._registry.resource(RANGES), at.namespace)]
        return [(one.get("spec") or {}).get("limits") or [] for one in found]


class LimitRanger(_Ranges):
    """Sets the requests and limits that new pods do not have."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Set missing values; the first LimitRange that has one wins."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _PODS:
            return
        for limits in await self.of(at):
            _fill_in(new, [one for one in limits if one.get("type") == "Container"])


class LimitBounds(_Ranges):
    """Refuses pods and claims that are out of bounds."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Forbidden in the words of the first LimitRange that has a complaint."""
        which = at.resource.group_resource
        if new is None or at.subresource or which not in {_PODS, _CLAIMS} or (which == _PODS and old is not None):
            return
        if old is not None and old["metadata"].get("deletionTimestamp"):
            return
        for limits in await self.of(at):
            wrong = [message for limit in limits for message in _complaints(new, limit, which)]
            if wrong:
                raise errors.forbidden(which, new["metadata"].get("name", ""), fields.aggregate(wrong))


def _fill_in(pod: Object, limits: list[Object]) -> None:
    notes: list[str] = []
    for title, kind in (("container", "containers"), ("init container", "initContainers")):
        for container in pod["spec"].get(kind) or ():
            for side, source in (("requests", "defaultRequest"), ("limits", "default")):
                missing: dict[str, Any] = {}
                for limit in limits:
                    missing.update(limit.get(source) or {})
                given = (container.get("resources") or {}).get(side) or {}
                added = sorted(missing.keys() - given.keys())
                if added:
                    container.setdefault("resources", {})[side] = {**missing, **given}
                    notes.append(f"{', '.join(added)} {side[:-1]} for {title} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _complaints(obj: Object, limit: Object, which: GroupResource) -> Iterator[str]:
    kind = limit.get("type", "")
    if which == _CLAIMS:
        if kind == "PersistentVolumeClaim":
            requests = (obj["spec"].get("resources") or {}).get("requests") or {}
            yield from _claim_bounds(kind, limit, requests)
    elif kind == "Container":
        for part in ("containers", "initContainers"):
            for container in obj["spec"].get(part) or ():
                wanted = container.get("resources") or {}
                yield from _bounds(kind, limit, wanted.get("requests") or {}, wanted.get("limits") or {})
    elif kind == "Pod":
        yield from _bounds(kind, limit, quotas.pod_total(obj, "requests"), quotas.pod_total(obj, "limits"))


def _claim_bounds(kind: str, limit: Object, requests: Mapping[str, Any]) -> Iterator[str]:
    """Claims have no limits: both bounds are for what they request, and there is no ratio."""
    for name, bound in (limit.get("min") or _NOTHING).items():
        yield from _least(kind, name, bound, requests, _NOTHING)
    for name, bound in (limit.get("max") or _NOTHING).items():
        about = f"maximum {name} usage per {kind} is {bound}"
        if name not in requests:
            yield f"{about}.  No request is specified"
        elif quantities.from_wire(requests[name]) > quantities.from_wire(bound):
            yield f"{about}, but request is {requests[name]}"


def _bounds(kind: str, limit: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    for name, bound in (limit.get("min") or _NOTHING).items():
        yield from _least(kind, name, bound, requests, limits)
    for name, bound in (limit.get("max") or _NOTHING).items():
        yield from _most(kind, name, bound, requests, limits)
    for name, bound in (limit.get("maxLimitRequestRatio") or _NOTHING).items():
        yield from _ratio(kind, name, bound, requests.get(name), limits.get(name))


def _least(kind: str, name: str, bound: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    about, least = f"minimum {name} usage per {kind} is {bound}", quantities.from_wire(bound)
    if name not in requests:
        yield f"{about}.  No request is specified"
    elif quantities.from_wire(requests[name]) < least:
        yield f"{about}, but request is {requests[name]}"
    elif name in limits and quantities.from_wire(limits[name]) < least:
        yield f"{about}, but limit is {limits[name]}"


def _most(kind: str, name: str, bound: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    about, most = f"maximum {name} usage per {kind} is {bound}", quantities.from_wire(bound)
    if name not in limits:
        yield f"{about}.  No limit is specified"
    elif quantities.from_wire(limits[name]) > most:
        yield f"{about}, but limit is {limits[name]}"
    elif name in requests and quantities.from_wire(requests[name]) > most:
        yield f"{about}, but request is {requests[name]}"


def _ratio(kind: str, name: str, bound: Any, request: Any, limit: Any) -> Iterator[str]:
    about = f"{name} max limit to request ratio per {kind} is {bound}"
    wanted, most = quantities.from_wire(request).nanos, quantities.from_wire(limit).nanos
    if not wanted:
        yield f"{about}, but no request is specified or request is 0"
    elif not most:
        yield f"{about}, but no limit is specified or limit is 0"
    elif most * 10**9 > wanted * quantities.from_wire(bound).nanos:
        yield f"{about}, but provided ratio is {most / wanted:f}"
