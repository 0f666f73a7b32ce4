"""Routes a method and path to a verb and a resource. Pure: a function of the path and the scheme.

Paths outside of `/api` and `/apis` are the server's own (`server.health`, `discovery`) and not handled here. A path in
a served group version that matches nothing is refused as upstream's router refuses it, with a `Status`; for any other
path the result is None, which means 404.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from rota.api import errors
from rota.api.identifiers import GroupVersion
from rota.api.kinds import ResourceType
from rota.api.scheme import Scheme

_OBJECT_VERBS: Final = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS: Final = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_SUBRESOURCE_VERBS: Final = {**_OBJECT_VERBS, "POST": "create"}
#: Subresources of a namespace; other segments after one are resources in it.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
#: Unsupported subresources of pods, and what to use instead. A 404 would not say so: kubectl takes it for a feature
#: that the administrator disabled.
_ABSENT: Final = {
    "ephemeralcontainers": "ephemeral containers are not supported, so that kubectl debug cannot add one to a running "
    "pod: run a command in it with kubectl exec, or work on a copy of it with kubectl debug POD --copy-to=NAME",
    "resize": "containers of running pods are not resized: change the resources of the workload's template, or delete "
    "the pod and create it anew",
}
_NO_DETAILS: Final = errors.Details()
#: Subresources whose path goes on: what follows belongs to the server behind them.
TAILED: Final = frozenset({"proxy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request asks for."""

    verb: str
    resource: ResourceType
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: The rest of the path of a subresource in `TAILED`, as it was sent; empty, or with a slash at its beginning.
    tail: str = ""


def match(scheme: Scheme, method: str, path: str, *, watch: bool = False) -> Route | None:
    """The route of a resource path; None if it is not one, NotFound or MethodNotAllowed if it matches nothing.

    `watch` is whether the query asks for a watch.
    """
    head, tail = _without_tail(path)
    segments = head.split("/")
    if len(segments) > 4 and not segments[-1]:
        segments.pop()  # a trailing slash is ignored
    if segments[1] == "api" and len(segments) > 3:
        group, version, rest = "", segments[2], segments[3:]
    elif segments[1] == "apis" and len(segments) > 4:
        group, version, rest = segments[2], segments[3], segments[4:]
    else:
        return None
    if "%" in head:
        rest = [unquote(segment) for segment in rest]
    if rest[0] == "watch" and len(rest) > 1:
        rest, watch = rest[1:], True
    place = _place(scheme, GroupVersion(group, version), rest)
    if place is None:
        # As upstream: an unknown version of a known group is a 404 Status, an unknown group is not a resource path.
        if not scheme.in_group_version(GroupVersion(group, version)) and (not group or group not in scheme.groups()):
            return None
        raise errors.NotFound(details=_NO_DETAILS)
    return _with_verb(place, method, tail, watch=watch)


def _without_tail(path: str) -> tuple[str, str]:
    """A path up to a subresource of `TAILED`, and the rest of it.

    The subresource is the third segment after the version, or the fifth if the object is in a namespace.
    """
    segments = path.split("/", 10)
    at = {"api": 3, "apis": 4}.get(segments[1] if len(segments) > 1 else "")
    if at is None:
        return path, ""
    if len(segments) > at + 4 and segments[at] == "namespaces":
        at += 2
    if len(segments) <= at + 3 or segments[at + 2] not in TAILED:
        return path, ""
    head = "/".join(segments[: at + 3])
    return head, path[len(head) :]


class Router:
    """`match` for one scheme, with a cache: clients request the same few paths repeatedly."""

    _MOST: Final = 4096

    def __init__(self, scheme: Scheme) -> None:
        self._scheme: Final = scheme
        self._generation = scheme.generation
        self._known: dict[tuple[str, str, bool], Route] = {}

    def match(self, method: str, path: str, *, watch: bool = False) -> Route | None:
        """See `match` of this module."""
        key = (method, path, watch)
        if self._generation == self._scheme.generation:
            known = self._known.get(key)
            if known is not None:
                return known
        else:
            self._known, self._generation = {}, self._scheme.generation
        route = match(self._scheme, method, path, watch=watch)
        if route is not None and not route.tail:
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = route
        return route


@dataclass(frozen=True, slots=True)
class _Place:
    """A path without the method."""

    resource: ResourceType
    namespace: str
    name: str
    subresource: str


def _place(scheme: Scheme, at: GroupVersion, rest: list[str]) -> _Place | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
        namespace, rest = rest[1], rest[2:]
        if not namespace:
            return None
    if not all(rest) or len(rest) > 3 or any("/" in segment for segment in (namespace, *rest)):
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    resource = scheme.by_resource(at.group, at.version, plural)
    if resource is None or (namespace and not resource.namespaced):
        return None
    if resource.namespaced and name and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        if (at.group, plural) == ("", "pods") and subresource in _ABSENT:
            raise errors.MethodNotAllowed(_ABSENT[subresource], details=_NO_DETAILS)
        return None
    return _Place(resource, namespace, name, subresource)


def _with_verb(place: _Place, method: str, tail: str, *, watch: bool) -> Route:
    resource = place.resource
    if place.subresource:
        verb = _SUBRESOURCE_VERBS.get(method, "")
        allowed = resource.subresources[place.subresource].verbs
    elif place.name:
        verb = _OBJECT_VERBS.get(method, "")
        # a watch of one object, which old clients still use
        verb = "watch" if verb == "get" and watch else verb
        allowed = resource.verbs
    else:
        verb = _COLLECTION_VERBS.get(method, "")
        verb = "watch" if verb == "list" and watch else verb
        # namespaced objects are written in a namespace
        everywhere = resource.namespaced and not place.namespace
        allowed = tuple(one for one in resource.verbs if not everywhere or one in {"list", "watch"})
    if verb not in allowed:
        raise errors.MethodNotAllowed(details=_NO_DETAILS)
    return Route(
        verb=verb,
        resource=resource,
        namespace=place.namespace,
        name=place.name,
        subresource=place.subresource,
        tail=tail,
    )
