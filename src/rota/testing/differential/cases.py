"""A case: a few requests in a row, written down once and sent to any API server, with what it answered.

Requests may speak of what only the run can know: `$ns` is a namespace of the case's own, which is made before the first
request, and `$rv0`, `$uid0`, `$continue0` are the resource version, the uid and the continue token of the first answer
(`$rv1` of the second, and so on). Answers are kept in the normal form of `normal`, so two of them can be compared
whoever gave them and whenever.
"""

import http
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.client.transports.transport import Answer, Call, Transport
from rota.testing.differential import normal

#: Field managers are named after the program that calls.
_AGENT: Final = "differential/1"
_REFERENCE: Final = re.compile(r"\$(rv|uid|continue|name)(\d+)")
_PATIENCE_S: Final = 90.0


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request; a body that is a text is sent as it is, everything else as JSON."""

    method: str = "GET"
    path: str
    query: Mapping[str, str] = {}
    content_type: str = ""
    accept: str = ""
    body: Any = None

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.method} {self.path}{'?' if query else ''}{query}"


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was answered, in normal form; of a watch, its events in a list."""

    code: int
    body: Any = None
    warnings: Sequence[str] = ()


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests in a row and, once recorded, the replies to them.

    Some replies tell how old something is: `recorded` is when they were given, in seconds since 1970.
    """

    name: str
    requests: Sequence[Request]
    replies: Sequence[Reply] = ()
    recorded: float = 0.0


#: A namespace and the account of its pods, which only a cluster with controllers makes by itself.
_PRELUDE: Final = (
    Request(method="POST", path="/api/v1/namespaces", body={"metadata": {"name": "$ns"}}),
    Request(
        method="POST",
        path="/api/v1/namespaces/$ns/serviceaccounts",
        body={"metadata": {"name": "default"}, "automountServiceAccountToken": False},
    ),
    Request(
        method="PATCH",
        path="/api/v1/namespaces/$ns/serviceaccounts/default",
        content_type="application/merge-patch+json",
        body={"automountServiceAccountToken": False},
    ),
)


async def replies(transport: Transport, requests: Sequence[Request], *, namespace: str) -> list[Reply]:
    """Send requests one after the other, in a new namespace of that name."""
    for one in _PRELUDE:
        await _send(transport, one, [], namespace)
    return await sent(transport, requests, namespace=namespace)


async def sent(transport: Transport, requests: Sequence[Request], *, namespace: str) -> list[Reply]:
    """Send requests one after the other, in a namespace that is there."""
    raw: list[Any] = []
    answers = []
    for one in requests:
        reply, document = await _send(transport, one, raw, namespace)
        raw.append(document)
        answers.append(reply)
    return answers


async def _send(transport: Transport, request: Request, before: Sequence[Any], namespace: str) -> tuple[Reply, Any]:
    call = Call(
        method=request.method,
        path=_filled(request.path, before, namespace),
        query=tuple((name, _filled(value, before, namespace)) for name, value in request.query.items()),
        headers=_headers(request),
        body=_body(request, before, namespace),
        timeout_s=_PATIENCE_S,
    )
    async with transport.open(call) as answer:
        text = await answer.read()
        return _reply(answer, text, request, namespace), _parsed(text, watch=False)


def _headers(request: Request) -> dict[str, str]:
    wanted = {"user-agent": _AGENT, "accept": request.accept or "application/json"}
    if request.body is not None or request.content_type:
        wanted["content-type"] = request.content_type or "application/json"
    return wanted


def _body(request: Request, before: Sequence[Any], namespace: str) -> bytes:
    if request.body is None:
        return b""
    text = request.body if isinstance(request.body, str) else json.dumps(request.body)
    return _filled(text, before, namespace).encode("utf-8", "surrogatepass")


def _filled(text: str, before: Sequence[Any], namespace: str) -> str:
    def value(found: re.Match[str]) -> str:
        document = before[int(found[2])]
        metadata = document.get("metadata", {}) if isinstance(document, dict) else {}
        names = {"rv": "resourceVersion", "uid": "uid", "continue": "continue", "name": "name"}
        return str(metadata.get(names[found[1]], ""))

    return _REFERENCE.sub(value, text).replace("$ns", namespace)


def _reply(answer: Answer, text: bytes, request: Request, namespace: str) -> Reply:
    document = _parsed(text, watch=request.query.get("watch") in {"true", "1"} and answer.code == http.HTTPStatus.OK)
    return Reply(
        code=answer.code,
        body=normal.form(document, namespace=namespace),
        warnings=[normal.text(one, namespace=namespace) for one in answer.warnings],
    )


def _parsed(text: bytes, *, watch: bool) -> Any:
    try:
        if watch:
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")
