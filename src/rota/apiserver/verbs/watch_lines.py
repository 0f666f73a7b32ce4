"""The events of a watch as JSON lines, in the negotiated shape.

Most watchers of a collection see the same: the lines of a batch of changes for plain JSON with the same selectors are
built once and cached until the next changes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors
from rota.api.identifiers import GroupVersionKind
from rota.apiserver import stored_form
from rota.apiserver.http.negotiation import Shape
from rota.apiserver.interfaces import Object
from rota.apiserver.registry.selection import Selection
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import Call
from rota.store.store_interface import Entry, Event

#: The cache key: the changes (by identity, so they are kept alive), the kind, the selectors.
_View: TypeAlias = tuple[int, GroupVersionKind, tuple[str, str]]
_MOST_VIEWS: Final = 64
_views: Final[dict[_View, tuple[Sequence[Event], bytes]]] = {}


class Lines:
    """Events as JSON lines in the negotiated shape."""

    def __init__(self, call: Call, selection: Selection) -> None:
        self._call = call
        self._selection = selection
        self._everything = selection.everything
        self._plain = call.accepted.plain or call.accepted.yaml or call.accepted.pretty
        self._plain = self._plain and call.accepted.shape is Shape.OBJECT
        self._columns_due = True
        #: Whether lines may be shared; the selectable fields of custom kinds are those at the start of the watch.
        self._shares = self._plain and (not call.resource.custom or self._everything)

    def initial(self, entries: Iterable[Entry]) -> bytes:
        """The current objects as ADDED events."""
        selected = (one for one in entries if self._everything or self._selection.matches(one.key, one.value))
        return b"".join(self._line("ADDED", one.value, one.revision) for one in selected)

    def changes(self, events: Sequence[Event]) -> bytes:
        """Changes as this watcher sees them."""
        if not self._shares:
            return b"".join(filter(None, map(self._change, events)))
        view = (id(events), self._call.resource.gvk, self._selection.texts)
        known = _views.get(view)
        if known is not None:
            return known[1]
        lines = b"".join(filter(None, map(self._change, events)))
        if len(_views) >= _MOST_VIEWS:
            _views.clear()
        _views[view] = events, lines
        return lines

    def bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        """Up to where the watcher has seen everything."""
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._call.resource
        obj: Any = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._call.accepted.shape is Shape.TABLE:
            obj = response_bodies.table(self._call, [], metadata, with_columns=False)
        elif self._call.accepted.shape is Shape.METADATA:
            obj = response_bodies.shaped(self._call, obj)
        return _encoded("BOOKMARK", obj)

    def error(self, error: errors.ApiError) -> bytes:
        """Why the stream ends."""
        return _encoded("ERROR", error.to_wire())

    def _change(self, event: Event) -> bytes | None:
        try:
            return self._sound_change(event)
        except stored_form.NotStoredForm:
            stored_form.leave_out(event.key, event.revision)
            return None

    def _sound_change(self, event: Event) -> bytes | None:
        if self._everything:
            if event.value is None:
                return self._line("DELETED", event.previous or b"", event.revision)
            return self._line("ADDED" if event.is_create else "MODIFIED", event.value, event.revision)
        match = self._selection.matches
        is_now = event.value is not None and match(event.key, event.value)
        was = event.previous is not None and match(event.key, event.previous)
        if is_now:
            assert event.value is not None
            return self._line("MODIFIED" if was else "ADDED", event.value, event.revision)
        if was:
            assert event.previous is not None
            return self._line("DELETED", event.previous, event.revision)
        return None

    def _line(self, kind: str, value: bytes, revision: int) -> bytes:
        if self._plain:
            return b'{"type":"%b","object":%b}\n' % (
                kind.encode(),
                stored_form.wire(value, revision, self._call.resource),
            )
        obj = stored_form.decode(value, revision, self._call.resource)
        shaped = response_bodies.shaped(self._call, obj, with_columns=self._columns_due)
        self._columns_due = False
        return _encoded(kind, shaped)


def _encoded(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
