"""DELETE of an object or of a collection."""

import asyncio
import functools
from dataclasses import replace
from typing import Any, Final

import msgspec

from rota.api import errors, fields, gotext, schemas
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver import bodies, stored_form
from rota.apiserver.http import responses
from rota.apiserver.interfaces import DeleteOptions, Object
from rota.apiserver.registry.objects import Written
from rota.apiserver.verbs import list_options, response_bodies
from rota.apiserver.verbs.calls import Call, wrong_dry_run
from rota.kit import offload
from rota.store.store_interface import Entry

_OPTIONS: Final = GroupKind("meta.k8s.io", "DeleteOptions")
_MODEL: Final = "meta_v1.DeleteOptions"
#: How many of a collection are deleted at once: durable writes cost much less together.
_TOGETHER: Final = 32
#: Kinds whose deletion returns the object; others return a Status.
_SHOWN: Final = frozenset(
    GroupResource(group, plural)
    for group, plurals in (
        ("", "namespaces persistentvolumeclaims persistentvolumes pods podtemplates resourcequotas"),
        ("", "serviceaccounts services"),
        ("resource.k8s.io", "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourceslices"),
        ("storage.k8s.io", "csidrivers csinodes storageclasses volumeattachments volumeattributesclasses"),
    )
    for plural in plurals.split()
)
_JOBS: Final = GroupResource("batch", "jobs")
_PRESERVED: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)


class _Wire(msgspec.Struct, kw_only=True):
    """A DeleteOptions body; unknown fields are ignored, as upstream does."""

    kind: str | None = None
    grace_period_seconds: int | None = msgspec.field(name="gracePeriodSeconds", default=None)
    propagation_policy: str | None = msgspec.field(name="propagationPolicy", default=None)
    orphan_dependents: bool | None = msgspec.field(name="orphanDependents", default=None)
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = msgspec.field(name="dryRun", default=None)


async def delete(call: Call) -> responses.Whole:
    """A Status of the deletion, or the object that is marked for deletion."""
    options, wire, given = await _read_options(call)
    call = _with_dry_run(call, wire)
    call = replace(call, at=replace(call.at, delete_options=given))
    written = await call.registry.remove(call.at, options)
    if written.removed and call.resource.group_resource not in _SHOWN:
        return _deleted(call, written)
    code = 202 if not written.removed and wire.orphan_dependents is False else 200
    return response_bodies.plain(call, written.object, code=code)


async def delete_collection(call: Call) -> responses.Whole:
    """Every selected object, as it was before."""
    options, wire, given = await _read_options(call)
    call = _with_dry_run(call, wire)
    call = replace(call, at=replace(call.at, delete_options=given))
    selected = list_options.read(call, watching=False).selection
    page = await call.store.list(stored_form.prefix(call.resource, call.at.namespace or None))
    chosen = [entry for entry in page.entries if selected.matches(entry.key, entry.value)]

    async def remove(entry: Entry) -> Entry | None:
        name = entry.key.rpartition("/")[2]
        try:
            await call.registry.remove(replace(call.at, name=name), options)
        except errors.NotFound:
            return None
        return entry

    entries: list[Entry] = []
    for start in range(0, len(chosen), _TOGETHER):
        removals = map(remove, chosen[start : start + _TOGETHER])
        # a refusal of one is the response, once all deletions that were started have ended
        for outcome in await asyncio.gather(*removals, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                entries.append(outcome)
    about = {"resourceVersion": str(page.revision)}
    return response_bodies.listed(call, entries, about)


def _deleted(call: Call, written: Written) -> responses.Response:
    which = call.resource.group_resource
    details = {"name": call.at.name, "group": which.group, "kind": which.resource}
    details["uid"] = written.object["metadata"].get("uid", "")
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
    return replace(responses.value(200, status), headers=responses.warning_headers(call.at.warnings))


async def _read_options(call: Call) -> tuple[DeleteOptions, _Wire, Object]:
    body = await call.request.body()
    value: Any = _from_query(call)
    if body.strip():
        try:
            content_type = call.request.header(b"content-type")
            parse = functools.partial(bodies.parse, body, content_type, find_duplicates=False)
            value = (await offload.run(parse, call.weight(body))).value
        except bodies.Unreadable as error:
            raise errors.bad_request(f"couldn't get version/kind; {error}") from None
    if not isinstance(value, dict):
        raise errors.bad_request("couldn't get version/kind; json parse error: not an object")
    if value.get("kind") not in (None, "", "DeleteOptions"):
        kind, version = gotext.quote(str(value["kind"])), gotext.quote(str(value.get("apiVersion", "")))
        raise errors.bad_request(f"no kind {kind} is registered for version {version}")
    try:
        given = schemas.clean(value, _MODEL)[0]
        wire = msgspec.convert(given, _Wire)
    except schemas.SchemaError as error:
        raise errors.bad_request(str(error)) from None
    if call.resource.group_resource == _JOBS and wire.propagation_policy is None and wire.orphan_dependents is None:
        call.at.warn(_PRESERVED)
    preconditions = wire.preconditions or _Preconditions()
    return (
        DeleteOptions(
            grace_period_seconds=wire.grace_period_seconds,
            propagation_policy=_policy(wire),
            precondition_uid=preconditions.uid,
            precondition_resource_version=preconditions.resource_version,
        ),
        wire,
        {name: item for name, item in given.items() if name not in ("kind", "apiVersion")},
    )


def _policy(wire: _Wire) -> str | None:
    if wire.orphan_dependents is None:
        return wire.propagation_policy
    if wire.propagation_policy is not None:
        path = fields.Path("propagationPolicy")
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise errors.invalid(_OPTIONS, "", [fields.invalid(path, wire.propagation_policy, why)])
    return "Orphan" if wire.orphan_dependents else "Background"


def _from_query(call: Call) -> Object:
    query = call.request.query
    value: Object = {}
    grace = query.get("gracePeriodSeconds")
    if grace is not None:
        if not grace.lstrip("-").isdecimal():
            raise errors.bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
        value["gracePeriodSeconds"] = int(grace)
    if query.get("propagationPolicy"):
        value["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        value["orphanDependents"] = call.request.flag("orphanDependents")
    return value


def _with_dry_run(call: Call, wire: _Wire) -> Call:
    wrong = wrong_dry_run(wire.dry_run or ())
    if wrong:
        raise errors.invalid(_OPTIONS, "", wrong)
    return replace(call, at=replace(call.at, dry_run=True)) if wire.dry_run else call
