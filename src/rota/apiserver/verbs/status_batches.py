"""Statuses of many pods in one request, for workers with short tasks.

A batch is posted to `/apis/rota.dev/v1alpha1/podstatusbatches`:

    {"statuses": [{"metadata": {"namespace": "a", "name": "p", "uid": "..."}, "status": {...}}, ...]}

Each item is equivalent to a strategic merge patch of `pods/status` with that uid, by the same rules and with the same
permissions of nodes; other users need the permission to such patches in all namespaces, besides that to batches. The
response is 201 with `verdicts`, one for each in order: as a Status, the response of the patch alone, without the pod.
Pods with a known template (`registry.status_templates`) are written together, in one transaction; a pod that is unusual
or fails is handled by itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from rota.api import errors, fields
from rota.api.identifiers import GroupKind, GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import bodies, stored_form
from rota.apiserver.authorization.nodes import identity
from rota.apiserver.http import responses
from rota.apiserver.registry.objects import ObjectRegistry, Written
from rota.apiserver.registry.status_templates import StatusUpdate
from rota.apiserver.routing import Route
from rota.apiserver.verbs import patch, response_bodies
from rota.apiserver.verbs.calls import Call
from rota.store.store_interface import Committed, Entry, Precondition, Put, Transaction

BATCHES: Final = ResourceType(
    group="rota.dev",
    version="v1alpha1",
    kind="PodStatusBatch",
    plural="podstatusbatches",
    namespaced=False,
    verbs=("create",),
    model="rota_v1alpha1.PodStatusBatch",
)
#: How many pods a batch may have, and how many of them are written in one transaction.
MOST: Final = 1024
_TOGETHER: Final = 64
_PODS: Final = GroupResource("", "pods")
_KIND: Final = GroupKind("rota.dev", "PodStatusBatch")
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}


class _Metadata(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Report(msgspec.Struct, frozen=True):
    status: msgspec.Raw
    metadata: _Metadata = _Metadata()


class _Batch(msgspec.Struct, frozen=True):
    statuses: list[_Report] = []


_decode: Final = msgspec.json.Decoder(_Batch).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """One status: the request that it would be alone, and its body."""

    call: Call
    body: bytes
    uid: str


async def create(call: Call) -> responses.Whole:
    """The response with the verdicts."""
    body = await call.request.body()
    if bodies.media_type(call.request.header(b"content-type")) != bodies.JSON:
        raise errors.unsupported_media_type((bodies.JSON,))
    try:
        reports = _decode(body).statuses
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise errors.bad_request(f"the batch cannot be read: {problem}") from None
    _refuse_malformed(reports)
    writes = [_write(call, one) for one in reports]
    verdicts: list[errors.ApiError | None] = []
    for start in range(0, len(writes), _TOGETHER):
        verdicts += await _carry_out(writes[start : start + _TOGETHER])
    answer = {
        "apiVersion": BATCHES.api_version,
        "kind": BATCHES.kind,
        "verdicts": [
            {
                "namespace": one.metadata.namespace,
                "name": one.metadata.name,
                "status": _SUCCESS if verdict is None else verdict.to_wire(),
            }
            for one, verdict in zip(reports, verdicts, strict=True)
        ],
    }
    return response_bodies.plain(call, answer, code=201)


def route(registry: ObjectRegistry) -> Route:
    """The route of single statuses in all namespaces: a batch needs the same permission."""
    return Route(verb="patch", resource=registry.resource(_PODS), namespace="", name="", subresource="status")


def _refuse_malformed(reports: Sequence[_Report]) -> None:
    path, found = fields.Path("statuses"), []
    seen: set[tuple[str, str]] = set()
    if len(reports) > MOST:
        found.append(fields.too_many(path, len(reports), MOST))
    for position, one in enumerate(reports):
        named = path.index(position).child("metadata")
        metadata = one.metadata
        found += [
            fields.required(named.child(part)) for part in ("namespace", "name", "uid") if not getattr(metadata, part)
        ]
        who = (metadata.namespace, metadata.name)
        if who in seen:
            found.append(fields.duplicate(named.child("name"), "/".join(who)))
        seen.add(who)
    if found:
        raise errors.invalid(_KIND, "", found)


def _write(call: Call, report: _Report) -> _Write:
    metadata, alone = report.metadata, route(call.registry)
    at = replace(
        call.at,
        verb="patch",
        resource=alone.resource,
        namespace=metadata.namespace,
        name=metadata.name,
        subresource="status",
        warnings=[],
    )
    body = b'{"metadata":{"uid":%b},"status":%b}' % (msgspec.json.encode(metadata.uid), report.status)
    alone = replace(alone, namespace=metadata.namespace, name=metadata.name)
    return _Write(replace(call, route=alone, at=at), body, metadata.uid)


async def _carry_out(writes: Sequence[_Write]) -> list[errors.ApiError | None]:
    """The result of each."""
    registry = writes[0].call.registry
    keys = [stored_form.key(one.call.resource, one.call.at.namespace, one.call.at.name) for one in writes]
    entries = await registry.store.get_many(keys)
    left = [_Look(write, entry, _case(write, entry)) for write, entry in zip(writes, entries, strict=True)]
    verdicts: dict[_Write, errors.ApiError | None] = {}
    # First one of each kind takes the usual path, unless its template is known; then the others use the template.
    for last in (False, True):
        printed = [(one, value) for one in left if (value := one.printed()) is not None]
        done = {id(one) for one, _ in printed} if await _written(printed) else set()
        left = [one for one in left if id(one) not in done]
        verdicts |= {one.write: None for one, _ in printed if id(one) in done}
        now = left if last else _one_of_each(left)
        # All are finished, even if one of them fails.
        ended = await asyncio.gather(*map(_work_out, now), return_exceptions=True)
        verdicts |= {one.write: None if end is None else _raised(end) for one, end in zip(now, ended, strict=True)}
        left = [one for one in left if one.write not in verdicts]
    return [verdicts[one] for one in writes]


class _Look(NamedTuple):
    """A status, the current pod, and their template key."""

    write: _Write
    entry: Entry | None
    case: StatusUpdate | None

    def printed(self) -> bytes | None:
        """The pod's new bytes, if there is a template."""
        return None if self.case is None else self.write.call.registry.status_templates.printed(self.case)


def _one_of_each(left: Sequence[_Look]) -> list[_Look]:
    """All without a template key, and the first of each key."""
    firsts = {one.case.key if one.case is not None else id(one): one for one in reversed(left)}
    return list(firsts.values())


async def _written(printed: Sequence[tuple[_Look, bytes]]) -> bool:
    """Write pods together; False if one of them has changed meanwhile, so that nothing was written."""
    puts, guards = [], []
    for look, value in printed:
        assert look.entry is not None, "there is no case without a pod"
        puts.append(Put(look.entry.key, value))
        guards.append(Precondition(look.entry.key, revision=look.entry.revision))
    if not puts:
        return True
    call = printed[0][0].write.call
    return isinstance(await call.registry.commit(call.at, Transaction(tuple(puts), tuple(guards))), Committed)


def _raised(problem: BaseException) -> errors.ApiError:
    """A refusal is one pod's verdict; any other error fails the whole request."""
    if isinstance(problem, errors.ApiError):
        return problem
    raise problem


def _case(write: _Write, entry: Entry | None) -> StatusUpdate | None:
    at = write.call.at
    if entry is None or at.dry_run or write.call.registry.kinds.has_policies():
        return None
    return write.call.registry.status_templates.case(
        entry.value,
        write.body,
        name=at.name,
        uid=write.uid,
        node=identity.node_of(at.user),
        by=(at.field_manager, write.call.request.query.get("fieldValidation", "")),
        now=at.now,
    )


async def _work_out(look: _Look) -> None:
    """Write one status by the usual path."""
    call = look.write.call
    at, registry = call.at, call.registry
    with patch.refusals(call):
        edit = patch.merging(call, look.write.body)
        made = None if look.entry is None else await registry.update_from(at, edit, look.entry)
        if made is None:
            await registry.update(at, edit)
        elif look.case is not None and not made.removed and not at.warnings and _is_change(look, made):
            registry.status_templates.learn(look.case, made.value)


def _is_change(look: _Look, made: Written) -> bool:
    """Whether the pod changed; a status without a change is not written, and no template is learned from it."""
    return look.entry is None or made.revision != look.entry.revision
