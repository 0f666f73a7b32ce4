"""The stored bytes of a bound pod, assembled from the bytes of the unbound one.

A pod's stored form is its metadata and then the rest, its spec and its status. Waiting pods of one template have the
same rest, byte for byte. So the rest with a node filled in, the pod's allocation, and whether it can be bound at all
are computed once for all of them. An unusual pod (being deleted, with a node, with scheduling gates, ...) is left to
`binder`, which has the error messages.
"""

from typing import Any, Final, NamedTuple

import msgspec

from rota.api import times
from rota.apiserver.node_allocations import pod_shares

#: Where the rest of a pod begins.
_REST: Final = b',"spec":{'
#: Number and size of templates: some megabytes at most.
_MOST: Final = 4096
_LARGEST: Final = 4096
_NODE: Final = "@@rota:node@@"
#: A time at which no pod is bound, to find the place of the binding's time.
_NEVER_S: Final = 253_402_300_799.0
_NEVER: Final = times.format_time(_NEVER_S)


class _Metadata(msgspec.Struct, gc=False):
    uid: str
    deletionTimestamp: str | None = None  # noqa: N815 - the wire's name


class _Head(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    apiVersion: str  # noqa: N815 - the wire's name
    kind: str
    metadata: _Metadata


class Assignable(NamedTuple):
    """A pod that can be bound."""

    uid: str
    share: pod_shares.PodAllocation
    head: bytes
    rest: "_Rest"

    def assigned(self, node: str, now: float) -> bytes:
        """Its stored bytes with the node."""
        before, between, after = self.rest.pieces
        return b"".join((self.head, before, _encode(node), between, times.format_time(now).encode(), after))


class _Rest(NamedTuple):
    share: pod_shares.PodAllocation
    #: The bytes before the node's name, between it and the time of the binding, and after it.
    pieces: tuple[bytes, bytes, bytes]


_head: Final = msgspec.json.Decoder(_Head).decode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode
_known: Final[dict[bytes, _Rest | None]] = {}


def assignable(value: bytes) -> Assignable | None:
    """A stored pod if it can be bound by a template; None otherwise."""
    at = value.find(_REST)
    if at < 0:
        return None
    head, rest = value[:at], value[at:]
    if rest in _known:
        found = _known[rest]
    else:
        if len(_known) >= _MOST:
            _known.clear()
        found = _rest(rest) if len(rest) <= _LARGEST else None
        _known[rest] = found
    if found is None:
        return None
    try:
        # the bytes before must be complete JSON, or this is not where the rest begins
        metadata = _head(head + b"}").metadata
    except msgspec.MsgspecError:
        return None
    return None if metadata.deletionTimestamp else Assignable(metadata.uid, found.share, head, found)


def scheduled(status: dict[str, Any], now: float) -> dict[str, Any]:
    """The status of a bound pod, without the nominated node."""
    kept = {name: value for name, value in status.items() if name != "nominatedNodeName"}
    return {**kept, "conditions": _conditions(status.get("conditions") or [], now)}


def _conditions(conditions: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    fresh: dict[str, Any] = {"type": "PodScheduled", "status": "True", "lastTransitionTime": times.format_time(now)}
    kept = [one for one in conditions if one.get("type") != "PodScheduled"]
    before = next((one for one in conditions if one.get("type") == "PodScheduled"), None)
    if before is not None and before.get("status") == "True":
        fresh["lastTransitionTime"] = before.get("lastTransitionTime") or fresh["lastTransitionTime"]
    place = next((i for i, one in enumerate(conditions) if one.get("type") == "PodScheduled"), len(kept))
    return [*kept[:place], fresh, *kept[place:]]


def _rest(rest: bytes) -> _Rest | None:
    try:
        pod = _decode(b"{" + rest[1:])
    except msgspec.MsgspecError:
        return None  # not the top level of an object
    spec, status = pod["spec"], pod.get("status") or {}
    if spec.get("nodeName") or spec.get("schedulingGates"):
        return None
    whole = _encode({**pod, "spec": {**spec, "nodeName": _NODE}, "status": scheduled(status, _NEVER_S)})
    before, at_node, more = whole.partition(_encode(_NODE))
    between, at_time, after = more.partition(_NEVER.encode())
    # once each, in this order: otherwise the pod itself contains the placeholders
    if not at_node or not at_time or whole.count(_NEVER.encode()) != 1 or whole.count(_NODE.encode()) != 1:
        return None
    return _Rest(pod_shares.wanted(b"{" + rest[1:]), (b"," + before[1:], between, after))
