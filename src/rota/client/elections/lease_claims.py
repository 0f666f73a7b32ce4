"""Rules of claiming a Lease, and the resulting spec. Pure: times are arguments.

The rules are client-go's (`tools/leaderelection`, 1.37). The clocks of two machines are never compared: a candidate
observes the Lease, and the holder counts as gone only if nothing has changed for the whole duration *by the candidate's
own monotonic clock*.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times

#: The duration of a released Lease; zero is not allowed.
_RELEASED_S: Final = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """The spec of the Lease at its last change, and when we saw that, by our monotonic clock."""

    spec: Mapping[str, Any]
    at: float

    @property
    def holder(self) -> str:
        """The holder; empty if there is none."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def transitions(self) -> int:
        """How often a term began after the first one."""
        return int(self.spec.get("leaseTransitions") or 0)

    @property
    def until(self) -> float:
        """When the Lease expires, if nothing changes."""
        return self.at + int(self.spec.get("leaseDurationSeconds") or 0)

    def valid(self, now: float) -> bool:
        """Whether the Lease has not expired."""
        return bool(self.holder) and now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of leadership, and its fencing token.

    The `fence` of a later term is higher than those of all earlier terms of the same Lease (uid). A resource that is
    protected by fencing keeps the highest one seen and refuses lower ones.
    """

    identity: str
    #: The Lease, by its namespace and name.
    namespace: str
    name: str
    lease_uid: str
    transitions: int
    #: The Lease's resourceVersion when it was acquired.
    resource_version: str

    @property
    def fence(self) -> tuple[int, int]:
        """The order of terms: the number of transitions and, in case other clients count differently, the version."""
        version = self.resource_version
        return self.transitions, int(version) if version.isdecimal() else 0

    @property
    def header(self) -> str:
        """The header of a write in this term; Rota's server refuses the write after the term."""
        return f"{self.namespace}/{self.name}/{self.transitions}/{self.identity}"

    @property
    def token(self) -> str:
        """The term as one string, for annotations and logs."""
        return f"{self.lease_uid}/{self.transitions}/{self.resource_version}"


def observe(before: Observation | None, lease: Mapping[str, Any], now: float) -> Observation:
    """The observation after reading the Lease: if nothing changed, its time goes on."""
    spec = lease.get("spec") or {}
    return before if before is not None and before.spec == spec else Observation(dict(spec), now)


def may_claim(seen: Observation, identity: str, now: float) -> bool:
    """Whether the Lease is ours, free, or expired."""
    return seen.holder == identity or not seen.valid(now)


def first_claim(identity: str, *, duration_s: int, now: float) -> dict[str, Any]:
    """The spec of a new Lease; `now` is wall time here and below."""
    stamp = times.format_micro_time(now)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": duration_s,
        "acquireTime": stamp,
        "renewTime": stamp,
        "leaseTransitions": 0,
    }


def next_claim(
    spec: Mapping[str, Any], identity: str, *, duration_s: int, now: float, renewing: bool
) -> dict[str, Any]:
    """The spec of a Lease that we renew or take over; unknown fields are kept.

    A claim that is not a renewal begins another term, also under the identity that holds the Lease: writes of the
    former process with this identity, if it still runs, then belong to a term that is over.
    """
    claim = first_claim(identity, duration_s=duration_s, now=now)
    transitions = int(spec.get("leaseTransitions") or 0)
    if renewing and spec.get("holderIdentity") == identity:
        claim["acquireTime"] = spec.get("acquireTime") or claim["acquireTime"]
        claim["leaseTransitions"] = transitions
    else:
        claim["leaseTransitions"] = transitions + 1
    return {**spec, **claim}


def release(spec: Mapping[str, Any], *, now: float) -> dict[str, Any]:
    """The spec of a released Lease, so that the next candidate need not wait."""
    stamp = times.format_micro_time(now)
    given_back = {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_S, "acquireTime": stamp, "renewTime": stamp}
    return {**spec, **given_back}


def term_of(lease: Mapping[str, Any]) -> Term:
    """The term of a Lease that we have just acquired."""
    spec = lease["spec"]
    return Term(
        identity=spec["holderIdentity"],
        namespace=meta.namespace(lease),
        name=meta.name(lease),
        lease_uid=meta.uid(lease),
        transitions=int(spec.get("leaseTransitions") or 0),
        resource_version=str(meta.metadata(lease).get("resourceVersion") or ""),
    )
