"""The extender protocol, version 1, from the extender's side.

Requests are read with case-insensitive keys, as Go does; responses have Go's own keys. Nothing that comes in is
trusted: a request that violates the protocol is a `MalformedRequest` with its path.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

#: The protocol's maximum score.
MOST_SCORE: Final = 10

_encode: Final = msgspec.json.Encoder().encode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: The endings of entries in a HostPriorityList.
_ENDINGS: Final = tuple(f"{score}}}" for score in range(MOST_SCORE + 1))
_names: Final = msgspec.json.Decoder(list[str]).decode
_KINDS: Final[Mapping[type[Any], str]] = {dict: "an object", list: "a list", str: "a string"}


#: Fields that are read of a pod or node besides its metadata: lists of objects, and their strings.
_READ: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "spec": {"taints": ("key", "value", "timeAdded")},
    "status": {"conditions": ("type", "status", "lastTransitionTime", "message")},
}


class MalformedRequest(ValueError):
    """A request violates the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """A filter or prioritize request: a pod, and nodes whole or by name."""

    pod: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]] | None
    #: The names in their raw form, for `names`.
    node_names: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionArgs:
    """The victims that a scheduler proposes: by node their uids, and the number of PDB violations."""

    pod: Mapping[str, Any]
    victims: Mapping[str, tuple[Sequence[str], int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """The pod and the node of a binding."""

    name: str
    namespace: str
    uid: str
    node: str


def args(body: bytes) -> Args:
    """Read ExtenderArgs."""
    parts = _parts(body)
    listed = _get({"Nodes": _inside(_find(parts, "Nodes"))}, "Nodes", dict)
    names = _find(parts, "NodeNames")
    return Args(
        pod=_object(_inside(_find(parts, "Pod")), "Pod"),
        nodes=None if listed is None else [_object(one, "Nodes.items") for one in _get(listed, "items", list) or ()],
        node_names=None if names is None or bytes(names) == b"null" else bytes(names),
    )


def names(raw: bytes) -> list[str]:
    """Decode the names of nodes."""
    try:
        return _names(raw)
    except msgspec.DecodeError as problem:
        raise MalformedRequest(f"NodeNames is no list of strings: {problem}") from None


def preemption_args(body: bytes) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs, in either form."""
    request = _decoded(body)
    victims: dict[str, tuple[Sequence[str], int]] = {}
    whole = _get(request, "NodeNameToVictims", dict)
    for node, entry in (whole if whole is not None else _get(request, "NodeNameToMetaVictims", dict) or {}).items():
        fields = _checked(entry, dict, node)
        uids = [
            _object(one, f"{node}.Pods")["metadata"].get("uid", "")
            if whole is not None
            else _get(_checked(one, dict, f"{node}.Pods"), "UID", str) or ""
            for one in _get(fields, "Pods", list) or ()
        ]
        count = _find(fields, "NumPDBViolations") or 0
        if not isinstance(count, int) or isinstance(count, bool):
            raise MalformedRequest(f"{node}.NumPDBViolations is no number")
        victims[node] = (uids, count)
    return PreemptionArgs(pod=_object(_get(request, "Pod", dict), "Pod"), victims=victims)


def binding_args(body: bytes) -> BindingArgs:
    """Read ExtenderBindingArgs."""
    request = _decoded(body)
    name, namespace, uid, node = (
        _get(request, field, str) or "" for field in ("PodName", "PodNamespace", "PodUID", "Node")
    )
    if not name or not node:
        raise MalformedRequest("PodName and Node must be given")
    return BindingArgs(name=name, namespace=namespace, uid=uid, node=node)


def filter_result(
    *,
    names: Sequence[str] | None = None,
    nodes: Sequence[Mapping[str, Any]] | None = None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> bytes:
    """Write an ExtenderFilterResult, with the nodes in the form of the request."""
    return _encode(
        {
            "Nodes": None if nodes is None else {"metadata": {}, "items": nodes},
            "NodeNames": names,
            "FailedNodes": failed or {},
            "FailedAndUnresolvableNodes": unresolvable or {},
            "Error": error,
        }
    )


def host_priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """Write a HostPriorityList."""
    return _encode([{"Host": name, "Score": score} for name, score in scores])


def host_priorities_of(entries: Sequence[str], scores: Sequence[int]) -> bytes:
    """The same from the beginnings of entries (`columns.Named`), for thousands of nodes."""
    return f"[{','.join(map(operator.add, entries, map(_ENDINGS.__getitem__, scores)))}]".encode()


def preemption_result(kept: Iterable[str], asked: PreemptionArgs) -> bytes:
    """Write an ExtenderPreemptionResult with the proposed victims of the kept nodes."""
    found = {}
    for node in kept:
        uids, violations = asked.victims[node]
        found[node] = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
    return _encode({"NodeNameToMetaVictims": found})


def binding_result(error: str = "") -> bytes:
    """Write an ExtenderBindingResult."""
    return _encode({"Error": error})


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        request: Mapping[str, Any] = _checked(msgspec.json.decode(body), dict, "the request")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedRequest(f"the request is no JSON: {problem}") from None
    return request


def _parts(body: bytes) -> Mapping[str, msgspec.Raw]:
    """The fields of a request, undecoded: names of nodes are decoded together, and hardly ever twice."""
    try:
        return _fields(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedRequest(f"the request is no JSON object: {problem}") from None


def _inside(raw: msgspec.Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedRequest(f"the request is no JSON: {problem}") from None


def _find(values: Mapping[str, Any], name: str) -> Any:
    if name in values:
        return values[name]
    folded = name.casefold()
    return next((value for key, value in values.items() if key.casefold() == folded), None)


def _get(values: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = _find(values, name)
    return None if value is None else _checked(value, kind, name)


def _checked(value: Any, kind: type[Any], what: str) -> Any:
    if not isinstance(value, kind):
        raise MalformedRequest(f"{what} is not {_KINDS[kind]}")
    return value


def _object(value: Any, what: str) -> Mapping[str, Any]:
    """A pod or node: every field that is read has the right type, or is absent."""
    document: Mapping[str, Any] = _checked(value, dict, what)
    metadata = _checked(document.get("metadata"), dict, f"{what}.metadata")
    _checked(metadata.get("name"), str, f"{what}.metadata.name")
    _part(metadata, "uid", str, f"{what}.metadata")
    for part in ("labels", "annotations"):
        for text in _part(metadata, part, dict, f"{what}.metadata").values():
            _checked(text, str, f"{what}.metadata.{part}")
    for owner in _part(metadata, "ownerReferences", list, f"{what}.metadata"):
        _checked(owner, dict, f"{what}.metadata.ownerReferences")
    for part, lists in _READ.items():
        inside = _part(document, part, dict, what)
        for name, texts in lists.items():
            for entry in _part(inside, name, list, f"{what}.{part}"):
                _checked(entry, dict, f"{what}.{part}.{name}")
                for text in texts:
                    _part(entry, text, str, f"{what}.{part}.{name}")
    _check_amounts(_part(document, "status", dict, what), f"{what}.status")
    return document


def _check_amounts(status: Mapping[str, Any], what: str) -> None:
    for part in ("allocatable", "capacity"):
        for amount in _part(status, part, dict, what).values():
            if not isinstance(amount, str | int | float):
                raise MalformedRequest(f"{what}.{part} holds {str(amount)[:40]}, which is no amount")


def _part(values: Mapping[str, Any], name: str, kind: type[Any], what: str) -> Any:
    """A field of an object; empty if it is absent."""
    value = values.get(name)
    return kind() if value is None else _checked(value, kind, f"{what}.{name}")
