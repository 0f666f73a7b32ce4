"""When a Lease may be claimed, and what is written into it. Pure: times are arguments.

The rules are client-go's (`tools/leaderelection`, 1.37). The clocks of two machines are never compared: a candidate
watches the Lease, and only if nothing in it has changed for its whole duration *by the candidate's own monotonic clock*
the holder counts as gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times

#: For how long a Lease that was given back is still valid; zero is not allowed.
_RELEASED_S: Final = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """What the Lease held when it last changed, and when we saw that, by our monotonic clock."""

    spec: Mapping[str, Any]
    at: float

    @property
    def holder(self) -> str:
        """Who holds it; empty if nobody does."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def transitions(self) -> int:
        """How often a term began after the first one."""
        return int(self.spec.get("leaseTransitions") or 0)

    @property
    def until(self) -> float:
        """When the holder's time is over, if nothing changes."""
        return self.at + int(self.spec.get("leaseDurationSeconds") or 0)

    def valid(self, now: float) -> bool:
        """Whether the holder must be believed to be alive."""
        return bool(self.holder) and now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A time of leadership, and its fencing token.

    The `fence` of a later term is higher than those of all terms before it, for as long as the Lease (its uid) is the
    same. Whoever guards something by a leader's word keeps the highest one seen and refuses lower ones.
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
        """What orders terms: how often the Lease was taken, and, should others count otherwise, its version."""
        version = self.resource_version
        return self.transitions, int(version) if version.isdecimal() else 0

    @property
    def header(self) -> str:
        """What a write in this term says to a server that can refuse it when the term is over."""
        return f"{self.namespace}/{self.name}/{self.transitions}/{self.identity}"

    @property
    def token(self) -> str:
        """The term as one text, for annotations and logs."""
        return f"{self.lease_uid}/{self.transitions}/{self.resource_version}"


def observe(before: Observation | None, lease: Mapping[str, Any], now: float) -> Observation:
    """What is known after looking at the Lease: if nothing changed, its time goes on running."""
    spec = lease.get("spec") or {}
    return before if before is not None and before.spec == spec else Observation(dict(spec), now)


def may_claim(seen: Observation, identity: str, now: float) -> bool:
    """Whether the Lease is ours already, nobody's, or its holder's time is over."""
    return seen.holder == identity or not seen.valid(now)


def first_claim(identity: str, *, duration_s: int, now: float) -> dict[str, Any]:
    """The spec of a Lease that we make; `now` is wall time here and below."""
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
    """The spec of a Lease that we renew or take over; what we do not know in it stays.

    Whoever does not renew begins another term, also under the identity that holds the Lease: what its former self
    still has under way, in a process that has not heard of its end, is then of a term that is over.
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
    """The spec of a Lease that we give back, so that the next one need not wait."""
    stamp = times.format_micro_time(now)
    given_back = {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_S, "acquireTime": stamp, "renewTime": stamp}
    return {**spec, **given_back}


def term_of(lease: Mapping[str, Any]) -> Term:
    """The term that a Lease which we have just acquired stands for."""
    spec = lease["spec"]
    return Term(
        identity=spec["holderIdentity"],
        namespace=meta.namespace(lease),
        name=meta.name(lease),
        lease_uid=meta.uid(lease),
        transitions=int(spec.get("leaseTransitions") or 0),
        resource_version=str(meta.metadata(lease).get("resourceVersion") or ""),
    )
