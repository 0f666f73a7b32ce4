"""The messages of the extender protocol, version 1, as kube-scheduler writes and reads them.

Keys of the protocol's own messages are Go's field names (`NodeNames`), absent values are written as null, and keys are
read case-insensitively, as Go does. Pods and nodes inside are ordinary API objects. Readers validate everything: a
response that violates the protocol is a `MalformedAnswer` with its path.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.scheduler.extenders.extender_interface import Document
from rota.scheduler.preemption.victims import Candidate

#: Scores beyond this are refused; kube-scheduler has no limit, and its sums may overflow.
LARGEST_SCORE: Final = 10**9

_encode: Final = msgspec.json.Encoder().encode
_KINDS: Final = {dict: "an object", list: "a list", str: "a string", int: "an integer"}


class MalformedAnswer(Exception):
    """A response of an extender violates the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """The response to a filter request; None where a field was null or absent."""

    nodes: tuple[str, ...] | None
    node_names: tuple[str, ...] | None
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaVictims:
    """The pods to evict on a node, by uid."""

    uids: tuple[str, ...]
    violations: int


# --- requests ---------------------------------------------------------------------------------------------------------


def args_with_names(pod: Document, names: Sequence[str]) -> bytes:
    """Write ExtenderArgs for an extender that has a node cache."""
    return _encode({"Pod": pod, "Nodes": None, "NodeNames": list(names)})


def args_with_nodes(pod: Document, nodes: Iterable[Document | msgspec.Raw]) -> bytes:
    """Write ExtenderArgs with whole nodes."""
    return _encode({"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None})


def preemption_args_with_uids(pod: Document, candidates: Iterable[Candidate]) -> bytes:
    """Write ExtenderPreemptionArgs for an extender that has a pod cache."""
    victims = {
        each.node_name: {
            "Pods": [{"UID": victim.uid} for victim in each.victims],
            "NumPDBViolations": each.violations,
        }
        for each in candidates
    }
    return _encode({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})


def preemption_args_with_pods(pod: Document, candidates: Iterable[tuple[Candidate, Sequence[Document]]]) -> bytes:
    """Write ExtenderPreemptionArgs with whole pods."""
    victims = {each.node_name: {"Pods": list(pods), "NumPDBViolations": each.violations} for each, pods in candidates}
    return _encode({"Pod": pod, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None})


def binding_args(pod: Document, node: str) -> bytes:
    """Write ExtenderBindingArgs."""
    meta = pod["metadata"]
    return _encode(
        {
            "PodName": meta["name"],
            "PodNamespace": meta.get("namespace") or "",
            "PodUID": meta.get("uid") or "",
            "Node": node,
        }
    )


# --- responses --------------------------------------------------------------------------------------------------------


def filter_result(body: bytes) -> FilterResult:
    """Read an ExtenderFilterResult."""
    answer = _Fields(_decoded(body), "")
    nodes = answer.get("Nodes", dict)
    names = answer.get("NodeNames", list)
    return FilterResult(
        nodes=None if nodes is None else tuple(_names_of(_Fields(nodes, "Nodes"))),
        node_names=None if names is None else tuple(_checked(name, str, path="NodeNames") for name in names),
        failed=_messages(answer, "FailedNodes"),
        unresolvable=_messages(answer, "FailedAndUnresolvableNodes"),
        error=answer.get("Error", str) or "",
    )


def host_priorities(body: bytes) -> dict[str, int]:
    """Read a HostPriorityList; a host that occurs twice has the sum."""
    ratings: dict[str, int] = {}
    for position, item in enumerate(_checked(_decoded(body, list), list, path="")):
        entry = _Fields(_checked(item, dict, path=f"[{position}]"), f"[{position}]")
        host, score = entry.required("Host", str), entry.required("Score", int)
        if abs(score) > LARGEST_SCORE:
            raise MalformedAnswer(f"[{position}].Score is {score}; scores are 0 to 10")
        ratings[host] = ratings.get(host, 0) + score
    return ratings


def preemption_result(body: bytes) -> dict[str, MetaVictims]:
    """Read an ExtenderPreemptionResult, by node name."""
    nodes = _Fields(_decoded(body), "").get("NodeNameToMetaVictims", dict) or {}
    found: dict[str, MetaVictims] = {}
    for name, victims in nodes.items():
        path = f"NodeNameToMetaVictims.{name}"
        entry = _Fields({} if victims is None else _checked(victims, dict, path=path), path)
        pods = [
            _Fields(_checked(pod, dict, path=f"{path}.Pods"), f"{path}.Pods") for pod in entry.get("Pods", list) or ()
        ]
        found[name] = MetaVictims(
            uids=tuple(pod.required("UID", str) for pod in pods), violations=entry.get("NumPDBViolations", int) or 0
        )
    return found


def binding_result(body: bytes) -> str:
    """Read an ExtenderBindingResult: the error, or ""."""
    return _Fields(_decoded(body), "").get("Error", str) or ""


class _Fields:
    """An object of the protocol; keys are case-insensitive, an exact match wins."""

    __slots__ = ("_path", "_values")

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self._values = values
        self._path = path

    def get(self, name: str, kind: type[Any]) -> Any:
        """Give a value of this kind, or None where it is null or absent."""
        value = self._values.get(name)
        if value is None:
            folded = name.casefold()
            value = next((item for key, item in self._values.items() if key.casefold() == folded), None)
        return None if value is None else _checked(value, kind, path=self._below(name))

    def required(self, name: str, kind: type[Any]) -> Any:
        """Give a value that must be there."""
        value = self.get(name, kind)
        if value is None:
            raise MalformedAnswer(f"{self._below(name)} is missing")
        return value

    def _below(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def _decoded(body: bytes, kind: type[Any] = dict) -> Any:
    try:
        return _checked(msgspec.json.decode(body), kind, path="")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(f"the answer is not JSON: {error}") from error


def _checked(value: Any, kind: type[Any], *, path: str) -> Any:
    # To Python, true is an integer.
    if not isinstance(value, kind) or isinstance(value, bool):
        where = path or "the answer"
        raise MalformedAnswer(f"{where} is not {_KINDS[kind]}")
    return value


def _names_of(nodes: _Fields) -> Iterable[str]:
    for position, item in enumerate(nodes.get("items", list) or ()):
        path = f"Nodes.items[{position}]"
        node = _Fields(_checked(item, dict, path=path), path)
        yield _Fields(node.required("metadata", dict), f"{path}.metadata").required("name", str)


def _messages(answer: _Fields, name: str) -> dict[str, str]:
    found = answer.get(name, dict) or {}
    return {node: _checked(message, str, path=f"{name}.{node}") for node, message in found.items()}
