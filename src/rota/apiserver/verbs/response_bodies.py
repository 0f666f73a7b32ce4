"""Encodes objects in the negotiated representation.

Plain JSON is assembled from stored bytes; only tables, metadata and YAML decode objects.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from rota.apiserver import stored_form, yaml_values
from rota.apiserver.http import responses
from rota.apiserver.http.negotiation import Shape
from rota.apiserver.interfaces import Object
from rota.apiserver.printing import metadata, tables
from rota.apiserver.verbs.calls import Call
from rota.kit import offload
from rota.store.store_interface import Entry

_T = TypeVar("_T")
_YAML: Final = "application/yaml"
#: Lists of up to so many objects are built at once, where that decodes them, and where it does not.
_AT_ONCE: Final = 100
_SPLICED_AT_ONCE: Final = 5000


class _Metadata(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


_metadata: Final = msgspec.json.Decoder(_Metadata)


def stored(call: Call, value: bytes, revision: int, *, code: int = 200) -> responses.Whole:
    """A stored object."""
    if call.accepted.plain:
        body = stored_form.wire(value, revision, call.resource)
        return responses.Response(code, body, headers=responses.warning_headers(call.at.warnings))
    return plain(call, stored_form.decode(value, revision, call.resource), code=code)


def plain(call: Call, obj: Object, *, code: int = 200) -> responses.Whole:
    """An object that is not stored in this form."""
    return _maybe_later(lambda: _encoded(call, shaped(call, obj), code=code), later=call.accepted.yaml)


def shaped(call: Call, obj: Object, *, with_columns: bool = True) -> Any:
    """One object in the negotiated shape."""
    accepted = call.accepted
    if accepted.shape is Shape.TABLE:
        about = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return table(call, [obj], about, with_columns=with_columns)
    if accepted.shape is Shape.METADATA:
        return metadata.partial(obj, api_version=f"meta.k8s.io/{accepted.version}")
    return obj


def table(call: Call, objects: Sequence[Object], about: Object, *, with_columns: bool = True) -> Object:
    """Objects as rows; `about` is the metadata of the list, or of the single object."""
    schema = call.schema
    return tables.table(
        call.resource,
        objects,
        now=call.at.now,
        include_object=call.request.query.get("includeObject", ""),
        list_metadata=about,
        with_columns=with_columns,
        printer_columns=schema.printer_columns if schema else None,
        api_version=f"meta.k8s.io/{call.accepted.version}",
    )


def tabled(call: Call, objects: Sequence[Object], about: Object) -> responses.Whole:
    """A list of objects that are not stored, as a table."""
    later = call.accepted.yaml or len(objects) > _AT_ONCE
    return _maybe_later(lambda: _encoded(call, table(call, objects, about)), later=later)


def listed(call: Call, entries: Sequence[Entry], about: Object) -> responses.Whole:
    """A list of stored objects."""
    quick = call.accepted.plain and len(entries) <= _SPLICED_AT_ONCE
    later = not quick and (len(entries) > _AT_ONCE or sum(len(entry.value) for entry in entries) > offload.INLINE_BYTES)
    return _maybe_later(lambda: _listed(call, entries, about), later=later)


def _listed(call: Call, entries: Sequence[Entry], about: Object) -> responses.Response:
    accepted, resource = call.accepted, call.resource
    if accepted.shape is Shape.TABLE:
        objects = _sound(call, entries, lambda entry: stored_form.decode(entry.value, entry.revision, resource))
        return _encoded(call, table(call, objects, about))
    if accepted.shape is Shape.METADATA_LIST:
        kind, version = Shape.METADATA_LIST.value, f"meta.k8s.io/{accepted.version}"
        items = _sound(call, entries, lambda entry: _partial(entry, version))
    else:
        kind, version = resource.list_kind, resource.api_version
        items = _sound(call, entries, lambda entry: stored_form.item(entry.value, entry.revision, resource))
    body = _list_body(kind, version, about, items)
    if accepted.yaml or accepted.pretty:
        return _encoded(call, msgspec.json.decode(body))
    return responses.Response(200, body, headers=responses.warning_headers(call.at.warnings))


def _sound(call: Call, entries: Sequence[Entry], shown: Callable[[Entry], _T]) -> list[_T]:
    """What is shown of each entry; damaged ones are left out, with a log line and a warning to the client."""
    try:
        return [shown(entry) for entry in entries]
    except (stored_form.NotStoredForm, msgspec.MsgspecError):
        found = []
        for entry in entries:
            try:
                found.append(shown(entry))
            except (stored_form.NotStoredForm, msgspec.MsgspecError):
                call.at.warn(stored_form.leave_out(entry.key, entry.revision))
        return found


def _maybe_later(make: Callable[[], responses.Response], *, later: bool) -> responses.Whole:
    return responses.Deferred(make) if later else make()


def _list_body(kind: str, version: str, about: Object, items: list[bytes]) -> bytes:
    head = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": about})
    # one join, because a list of thousands is tens of megabytes
    parts = [b","] * (2 * len(items) + 1)
    parts[1::2] = items
    parts[0], end = head[:-1] + b',"items":[', b"]}"
    return b"".join((*parts[:-1], end) if items else (parts[0], end))


def _partial(entry: Entry, version: str) -> bytes:
    raw = bytes(_metadata.decode(entry.value).metadata)
    head = msgspec.json.encode({"kind": Shape.METADATA.value, "apiVersion": version})
    return b'%b,"metadata":{"resourceVersion":"%d",%b}' % (head[:-1], entry.revision, raw[1:])


def _encoded(call: Call, value: Any, *, code: int = 200) -> responses.Response:
    headers = responses.warning_headers(call.at.warnings)
    if call.accepted.yaml:
        return responses.Response(code, yaml_values.dump(value), _YAML, headers)
    body = msgspec.json.encode(value)
    if call.accepted.pretty:
        body = msgspec.json.format(body, indent=2) + b"\n"
    return responses.Response(code, body, headers=headers)
