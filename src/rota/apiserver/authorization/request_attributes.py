"""Converts a request to authorization attributes, and a decision to a refusal with upstream's message.

A request with a route is authorized as what it is going to do. A request without a route is still authorized, by the
form of its path (`apiserver/pkg/endpoints/request/requestinfo.go`, 1.36): an unauthorized client must not learn what
exists.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from rota.api import errors, fieldselectors, gotext
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Question, User, Verdict
from rota.apiserver.routing import Route

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTIONS: Final = frozenset({"list", "watch", "deletecollection"})
_READ_BY_NAME: Final = frozenset({"list", "watch"})
#: Path segments after a namespace that are its subresources; others are resources in it.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_NAMESPACES: Final = "namespaces"
#: Every other value of `watch` asks for one: what answers may be another server, which reads it as upstream does.
_FALSE: Final = frozenset({"0", "false"})


def about_route(route: Route, user: User, query: Mapping[str, str]) -> Question:
    """The attributes of a request with a route."""
    resource = route.resource
    name, namespace = route.name, route.namespace
    if resource.plural == _NAMESPACES and not resource.group:
        # a namespace belongs to itself: users who may read everything in it may read it
        namespace = name
    selected = _selected(route.verb, query)
    return Question(
        user=user,
        verb=route.verb,
        group=resource.group,
        resource=resource.plural,
        subresource=route.subresource,
        namespace=namespace,
        name=name or _required_name(route.verb, selected),
        fields=selected,
    )


def about_path(method: str, path: str, user: User, query: Mapping[str, str]) -> Question:
    """The attributes of a request that matches no resource of this server."""
    segments = path.strip("/").split("/")
    if segments[0] == "api" and len(segments) > 2:
        group, rest = "", segments[2:]
    elif segments[0] == "apis" and len(segments) > 3:
        group, rest = segments[1], segments[3:]
    else:
        return Question(user=user, verb=method.lower(), path=path)
    if "%" in path:
        rest = [unquote(segment) for segment in rest]
    verb = _VERBS.get(method, "")
    if rest[0] == "watch" and len(rest) > 1:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == _NAMESPACES and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name:
        watches = query.get("watch", "false").lower() not in _FALSE
        verb = {"get": "watch" if watches else "list", "delete": "deletecollection"}.get(verb, verb)
    selected = _selected(verb, query)
    return Question(
        user=user,
        verb=verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name or _required_name(verb, selected),
        fields=selected,
    )


def refusal(question: Question, verdict: Verdict) -> errors.Forbidden:
    """The response to an unauthorized request."""
    why = denial(question)
    if verdict.reason:
        why = f"{why}: {verdict.reason}"
    return errors.forbidden(GroupResource(question.group, question.resource), question.name, why)


def denial(question: Question) -> str:
    """What the user may not do."""
    user = f"User {gotext.quote(question.user.name)} cannot {question.verb}"
    if question.path is not None:
        return f"{user} path {gotext.quote(question.path)}"
    what = f"{question.resource}/{question.subresource}" if question.subresource else question.resource
    where = f"in the namespace {gotext.quote(question.namespace)}" if question.namespace else "at the cluster scope"
    return f"{user} resource {gotext.quote(what)} in API group {gotext.quote(question.group)} {where}"


def _selected(verb: str, query: Mapping[str, str]) -> fieldselectors.FieldSelector:
    text = query.get("fieldSelector") if verb in _COLLECTIONS else None
    if not text:
        return fieldselectors.EVERYTHING
    try:
        return fieldselectors.parse(text)
    except fieldselectors.FieldSelectorError:
        return fieldselectors.EVERYTHING  # refused later, where the kind is known


def _required_name(verb: str, selected: fieldselectors.FieldSelector) -> str:
    """The one object that a list or watch is limited to, so that permissions on this object are enough."""
    if selected.empty or verb not in _READ_BY_NAME:
        return ""
    name = selected.required_value("metadata.name") or ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name
