"""One line of the audit log: an Event of audit.k8s.io/v1. Pure.

Confidential data is left out here: the bodies of secrets and of other resources that are encrypted at rest, bodies with
tokens, the error messages about them, and credentials in the URL.
"""

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import errors, times
from rota.api.identifiers import GroupResource
from rota.apiserver import bodies
from rota.apiserver.audit.policy import API_VERSION, Level, Stage
from rota.apiserver.http import responses
from rota.apiserver.interfaces import User
from rota.apiserver.routing import Route

#: Besides secrets: bodies posted here are, or contain, a token.
_SECRET_PARTS: Final = frozenset({("serviceaccounts", "token"), ("tokenreviews", "")})
SECRETS: Final = GroupResource("", "secrets")
_CREDENTIALS: Final = re.compile(r"(?i)((?:^|[?&])[^=&]*(?:token|secret|password)[^=&]*=)[^&]*")


class _User(msgspec.Struct, omit_defaults=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _ObjectRef(msgspec.Struct, omit_defaults=True, rename="camel"):
    resource: str
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, omit_defaults=True):
    metadata: dict[str, Any]
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


class _Event(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True):
    kind: str
    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: _User
    impersonated_user: _User | None = None
    source_ips: tuple[str, ...] = msgspec.field(name="sourceIPs", default=())
    user_agent: str = ""
    object_ref: _ObjectRef | None = None
    response_status: _Status | None = None
    request_object: msgspec.Raw | None = None
    request_received_timestamp: str
    stage_timestamp: str
    annotations: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


_named: Final = msgspec.json.Decoder(_Named)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The data of a request and its response."""

    audit_id: str
    level: Level
    received: float
    method: str
    uri: str
    address: str
    agent: str
    #: The authenticated user; None if authentication failed.
    user: User | None
    #: The impersonated user, if there is one.
    impersonated: User | None = None
    route: Route | None
    answer: responses.Answer
    body: bytes = b""
    content_type: str = ""
    annotations: Mapping[str, str]
    omits_managed_fields: bool = False


def line(facts: Facts, stage: Stage, now: float, *, secret: Collection[GroupResource]) -> bytes:
    """The event as a line; `secret` are resources whose bodies are never written."""
    hidden = _is_secret(facts.route, secret)
    event = _Event(
        kind="Event",
        api_version=API_VERSION,
        level=facts.level.value,
        audit_id=facts.audit_id,
        stage=stage.value,
        request_uri=_CREDENTIALS.sub(r"\1[hidden]", facts.uri) if "=" in facts.uri else facts.uri,
        verb=facts.method.lower() if facts.route is None else facts.route.verb,
        user=_user(facts.user),
        impersonated_user=None if facts.impersonated is None else _user(facts.impersonated),
        source_ips=(facts.address,) if facts.address else (),
        user_agent=facts.agent,
        object_ref=None if facts.route is None else _reference(facts.route, facts.answer),
        response_status=_status(facts.answer, hidden=hidden),
        request_object=None if hidden or facts.level is not Level.REQUEST else _object(facts),
        request_received_timestamp=_stamp(facts.received),
        stage_timestamp=_stamp(now),
        annotations=dict(facts.annotations),
    )
    return _encode(event) + b"\n"


def _stamp(moment: float) -> str:
    """A time with microseconds. On a busy server many times share their second, and formatting the second takes
    long.
    """
    seconds, rest = divmod(moment, 1.0)
    return f"{_second(int(seconds))}.{int(rest * 1e6):06}Z"


@functools.lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return times.format_time(seconds).removesuffix("Z")


def _is_secret(route: Route | None, secret: Collection[GroupResource]) -> bool:
    if route is None:
        return False
    which = route.resource.group_resource
    return which in secret or which == SECRETS or (which.resource, route.subresource) in _SECRET_PARTS


def _user(user: User | None) -> _User:
    if user is None:
        return _User()
    return _User(username=user.name, uid=user.uid, groups=user.groups, extra=user.extra)


def _reference(route: Route, answer: responses.Answer) -> _ObjectRef:
    return _ObjectRef(
        resource=route.resource.plural,
        namespace=route.namespace,
        name=route.name or _made(answer),
        api_group=route.resource.group,
        api_version=route.resource.version,
        subresource=route.subresource,
    )


def _made(answer: responses.Answer) -> str:
    """The name of a created object, which is not in its path."""
    if not isinstance(answer, responses.Response) or answer.code != 201:
        return ""
    try:
        return _named.decode(answer.body).metadata.name
    except msgspec.MsgspecError:
        return ""  # a table, or YAML


def _status(answer: responses.Answer, *, hidden: bool) -> _Status:
    if not isinstance(answer, responses.Response) or answer.code < 400:
        return _Status(metadata={}, code=answer.code)
    error = errors.from_wire(answer.body, code=answer.code)
    message = "" if hidden else error.message
    return _Status(metadata={}, status="Failure", message=message, reason=error.reason, code=answer.code)


def _object(facts: Facts) -> msgspec.Raw | None:
    """The request body as JSON; nothing if it is not JSON."""
    if not facts.body:
        return None
    kind = bodies.media_type(facts.content_type)
    as_json = kind if kind in bodies.READ else bodies.YAML if kind.endswith("yaml") else bodies.JSON
    try:
        value = bodies.parse(facts.body, as_json, find_duplicates=False).value
    except bodies.Unreadable:
        return None
    if facts.omits_managed_fields and isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        value["metadata"].pop("managedFields", None)
    return msgspec.Raw(_encode(value))
