"""POST of many objects of one kind at once: a collection's path with `?batch=true`.

    POST /api/v1/namespaces/default/pods?batch=true
    {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {...}}, ...]}

A user who may create one object there may create many, and each is defaulted, admitted, charged and validated as if it
had come alone; only bodies and transactions are shared. The response is 201 with `verdicts`, one for each in order: the
object's name, uid and resourceVersion, and as a Status the response that its own request would have got. Some may be
refused while others are created. Servers without this feature refuse the list because it is not a pod.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from rota.api import errors, fields
from rota.apiserver import bodies, stored_form
from rota.apiserver.http import responses
from rota.apiserver.interfaces import AdmissionFingerprint
from rota.apiserver.registry.create_templates import CreateTemplate
from rota.apiserver.registry.objects import Written, WrittenBytes
from rota.apiserver.verbs import create, response_bodies
from rota.apiserver.verbs.calls import Call
from rota.store.store_interface import Committed, Precondition, Put, Transaction

#: How many objects a batch may have, and how many of them are written in one transaction.
MOST: Final = 1024
_TOGETHER: Final = 64
#: How many take the usual path at a time if they are charged to the same quota or node.
_CHARGED_TOGETHER: Final = 4
#: How many of a template take the usual path before others are built from it; see `create_templates`.
_EXAMPLES: Final = 2
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    kind: str = ""


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


_decode: Final = msgspec.json.Decoder(_List).decode
_object: Final = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """One object: the request that it would be alone, its body, and its template."""

    call: Call
    body: bytes
    create_template: CreateTemplate | None


async def create_many(call: Call) -> responses.Whole:
    """The response with the verdicts."""
    content_type = call.request.header(b"content-type")
    if bodies.media_type(content_type) != bodies.JSON:
        raise errors.unsupported_media_type((bodies.JSON,))
    try:
        found = _decode(await call.request.body())
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise errors.bad_request(f"the list cannot be read: {problem}") from None
    if found.kind not in {"", "List", call.resource.list_kind}:
        raise errors.bad_request(f"a {found.kind} is no {call.resource.list_kind}")
    if len(found.items) > MOST:
        wrong = fields.too_many(fields.Path("items"), len(found.items), MOST)
        raise errors.invalid(call.resource.group_kind, "", [wrong])
    create_templates, may_filled = (
        call.registry.create_templates,
        call.registry.kinds.admission_fingerprint(call.at) is not None,
    )
    items = [
        _Item(
            replace(call, at=replace(call.at, warnings=[])),
            body := bytes(raw),
            create_templates.create_template(call.at, body, content_type) if may_filled else None,
        )
        for raw in found.items
    ]
    verdicts: list[dict[str, Any]] = []
    for start in range(0, len(items), _TOGETHER):
        verdicts += await _carry_out(items[start : start + _TOGETHER])
    answer = {"apiVersion": "rota.dev/v1alpha1", "kind": "Verdicts", "verdicts": verdicts}
    return response_bodies.plain(call, answer, code=201)


async def _carry_out(items: Sequence[_Item]) -> list[dict[str, Any]]:
    """The result of each."""
    verdicts: dict[_Item, dict[str, Any]] = {}
    left = list(items)
    # First some of each template take the usual path, unless it is known; then the others are built from it.
    for last in (False, True):
        admission_fingerprint = left[0].call.registry.kinds.admission_fingerprint(left[0].call.at) if left else None
        verdicts |= await _put_together(left, admission_fingerprint)
        left = [one for one in left if one not in verdicts]
        now = left if last else _examples(left)
        room = asyncio.Semaphore(_CHARGED_TOGETHER if admission_fingerprint is None else _TOGETHER)
        # All are finished, even if one of them fails.
        ended = await asyncio.gather(
            *(_work_out(one, admission_fingerprint, room) for one in now), return_exceptions=True
        )
        verdicts |= {one: _verdict(one, end) for one, end in zip(now, ended, strict=True)}
        left = [one for one in left if one not in verdicts]
    return [verdicts[one] for one in items]


async def _put_together(
    left: Sequence[_Item], admission_fingerprint: AdmissionFingerprint | None
) -> dict[_Item, dict[str, Any]]:
    """Store those that are built from templates, all or none of them."""
    if admission_fingerprint is None:
        return {}
    filled: dict[str, tuple[_Item, bytes]] = {}
    for one in left:
        registry, at = one.call.registry, one.call.at
        value = (
            None
            if one.create_template is None
            else registry.fill_template(one.create_template, admission_fingerprint, now=at.now)
        )
        if value is not None and one.create_template is not None:
            filled.setdefault(
                stored_form.key(at.resource, at.namespace, one.create_template.name.decode()), (one, value)
            )
    if not filled:
        return {}
    call = left[0].call
    puts = tuple(Put(key, value) for key, (_, value) in filled.items())
    guards = (*(Precondition(key, revision=0) for key in filled), *admission_fingerprint.guards)
    outcome = await call.registry.commit(call.at, Transaction(puts, guards))
    if not isinstance(outcome, Committed):
        return {}  # the usual path finds the reason for one of them
    return {one: _made(one, value, outcome.revision) for one, value in filled.values()}


def _examples(left: Sequence[_Item]) -> list[_Item]:
    """All without a template, and of each template as many as it takes to learn it."""
    seen: dict[object, int] = {}
    found = []
    for one in left:
        key = id(one) if one.create_template is None else one.create_template.key
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= _EXAMPLES:
            found.append(one)
    return found


async def _work_out(
    one: _Item, admission_fingerprint: AdmissionFingerprint | None, room: asyncio.Semaphore
) -> Written | WrittenBytes:
    async with room:
        return await create.work_out(one.call, one.body, one.create_template, admission_fingerprint)


def _verdict(one: _Item, ended: Written | WrittenBytes | BaseException) -> dict[str, Any]:
    """The verdict of one that took the usual path; an error that is not a refusal fails the whole request."""
    if not isinstance(ended, BaseException):
        return _made(one, ended.value, ended.revision)
    if not isinstance(ended, errors.ApiError):
        raise ended
    return {"name": _name(one.body), "namespace": one.call.at.namespace, "status": ended.to_wire()}


def _made(one: _Item, value: bytes, revision: int) -> dict[str, Any]:
    metadata = _object(value).metadata
    return {
        "name": metadata.name,
        "namespace": one.call.at.namespace,
        "uid": metadata.uid,
        "resourceVersion": str(revision),
        "status": _SUCCESS,
    }


def _name(body: bytes) -> str:
    try:
        return _object(body).metadata.name
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
