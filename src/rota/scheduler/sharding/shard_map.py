"""The shard map: which of several schedulers decides a pod. Pure.

    key = routing_key(pod, together)
    name = shard_map.decider(key, pod.labels)

A pod belongs to the member with the highest weighted rendezvous hash of its routing key. So every scheduler computes
the same answer from the same map, no pod is written to be assigned, and a change of the members moves only the pods
that it must: of a member that left, to a member that came, or to a member with more weight.

Pods that must be decided by one scheduler share a routing key. Which constraints need that, because the binding
transaction cannot check them, is in `routing_key`.
"""

import enum
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from rota.api import selectors
from rota.columns.pods import PodInfo

#: The key of batch scheduling: queues and their quotas are decided by one scheduler.
BATCH_KEY: Final = "batch"
#: The weight of a member that has none of its own.
DEFAULT_WEIGHT: Final = 100
_HOSTNAME: Final = "kubernetes.io/hostname"
_HARD: Final = "DoNotSchedule"
_RANGE: Final = 2.0**64


class Together(enum.Enum):
    """Which pods always have the same scheduler."""

    OWNER = "Owner"
    NAMESPACE = "Namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A scheduler in the map."""

    name: str
    weight: int = DEFAULT_WEIGHT
    #: A LabelSelector of the pods that are only for members with this selector; None if it takes any pod.
    selector: Mapping[str, Any] | None = None
    #: How often the Lease of the member had changed hands when it joined: identifies its process.
    term: int = 0


@dataclass(frozen=True)
class ShardMap:
    """A version of the map."""

    epoch: int = 0
    members: tuple[Member, ...] = ()
    together: Together = Together.OWNER

    def decider(self, key: str, labels: Mapping[str, str]) -> str:
        """The name of the scheduler that decides pods of this key and these labels; empty if there is no member."""
        members = self._general
        # Pods under one domain-wide key may have different labels, and must have the same scheduler.
        if self._selective and not key.startswith("domain/"):
            members = tuple(m for m, matches in self._selective if matches(labels)) or members
        best, winner = -math.inf, ""
        for member in members:
            score = _score(key, member.name, member.weight)
            if score > best:
                best, winner = score, member.name
        return winner

    @cached_property
    def _general(self) -> tuple[Member, ...]:
        return tuple(m for m in self.members if m.selector is None) or self.members

    @cached_property
    def _selective(self) -> tuple[tuple[Member, Any], ...]:
        return tuple((m, selectors.from_object(m.selector).matches) for m in self.members if m.selector is not None)


#: The map before the first one: no scheduler decides anything.
NO_MAP: Final = ShardMap()


def _score(key: str, name: str, weight: int) -> float:
    """The weighted rendezvous hash: a member wins a key with a probability proportional to its weight."""
    digest = hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
    return -weight / math.log((int.from_bytes(digest) + 0.5) / _RANGE)


class _Owner(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    ownerReferences: tuple[_Owner, ...] | None = None  # noqa: N815 - the wire's name


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_owners: Final = msgspec.json.Decoder(_Pod).decode


def routing_key(pod: PodInfo, together: Together = Together.OWNER) -> str:
    """Pods with equal keys have the same scheduler.

    A pod of a group goes with its group, one with a controller with the pods of that controller, any other one alone.
    Pods with constraints over domains larger than a node go with all such pods of their namespace: two schedulers that
    place two of them at the same time could each find the domain free, and a binding is checked on its node only.
    """
    namespace = pod.namespace
    if _has_domain_constraint(pod):
        return f"domain/{namespace}"
    if together is Together.NAMESPACE:
        return f"namespace/{namespace}"
    if pod.member is not None and pod.member.group:
        return f"group/{namespace}/{pod.member.group}"
    owner = _controller(pod)
    return f"owner/{owner}" if owner else f"pod/{pod.uid}"


def _has_domain_constraint(pod: PodInfo) -> bool:
    shape = pod.shape
    return (
        # Of pods that may be the first of their group, two schedulers could place one each, in different domains.
        bool(shape.required_affinity)
        or any(term.topology_key != _HOSTNAME for term in shape.required_anti_affinity)
        or any(one.whenUnsatisfiable == _HARD for one in shape.spread_constraints)
    )


def _controller(pod: PodInfo) -> str:
    kept = pod.kept
    if kept is None:
        return ""
    found = _owners(kept) if isinstance(kept, bytes) else msgspec.convert(kept, _Pod)
    return _of_controller(found.metadata.ownerReferences or ())


def _of_controller(owners: Iterable[_Owner]) -> str:
    return next((one.uid for one in owners if one.controller), "")
