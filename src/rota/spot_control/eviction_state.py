"""The state of pods on machines with a notice: requested evictions, and the answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import meta
from rota.spot import evacuation, policies
from rota.spot.evacuation import Act, EvictedPod, Plan, Step
from rota.spot.node_readings import Notice
from rota.spot.policies import AtDeadline, Policy, PolicyError

#: After this time a requested eviction shows in the pod; otherwise it did not happen.
_SHOWN_S: Final = 10.0
#: Retry interval of a failed deletion, which is short because the deadline is near.
_AGAIN_S: Final = 1.0
_USUAL_GRACE_S: Final = 30.0

Document = Mapping[str, Any]


@dataclass(slots=True)
class EvictionState:
    """One pod."""

    refusals: int = 0
    refused_at: float = 0.0
    #: When its deletion failed.
    failed_at: float = -math.inf
    #: When it was evicted; None if it was not.
    told_at: float | None = None
    #: Its budgets make eviction impossible until they are changed: no request before this time.
    hopeless_until: float = -math.inf


class EvictionStates:
    """All pods on machines with a notice, by uid."""

    def __init__(self, *, dry_run: bool = False) -> None:
        self._dry_run: Final = dry_run
        self._known: Final[dict[str, EvictionState]] = {}

    def of(self, uid: str) -> EvictionState:
        """The state of a pod."""
        return self._known.setdefault(uid, EvictionState())

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._known.pop(uid, None)

    def is_going(self, uid: str, *, now: float) -> bool:
        """Whether a pod was evicted, though its object may not show it yet."""
        known = self._known.get(uid)
        if known is None or known.told_at is None:
            return False
        return self._dry_run or now < known.told_at + _SHOWN_S

    def guest(self, pod: Document, *, reserved: bool, now: float) -> EvictedPod:
        """A pod as input of the evacuation rules."""
        uid, spec = meta.uid(pod), pod.get("spec") or {}
        known = self.of(uid)
        grace = spec.get("terminationGracePeriodSeconds")
        guest = EvictedPod(
            key=f"{meta.namespace(pod)}/{meta.name(pod)}",
            uid=uid,
            priority=spec.get("priority") or 0,
            grace_s=_USUAL_GRACE_S if grace is None else float(grace),
            at_deadline=policy_of(pod)[0].at_deadline,
            reserved=reserved,
            going=self.is_going(uid, now=now),
        )
        if known.refusals:
            guest = replace(guest, refusals=known.refusals, refused_at=known.refused_at)
        return guest

    def plan(self, guests: list[EvictedPod], notice: Notice, *, now: float) -> Plan:
        """The steps that are due: see `rota.spot.evacuation.plan`; impossible evictions wait for their last moment.

        Where the provider respects budgets, there is no moment at which budgets are overridden.
        """
        if notice.waits:
            guests = [replace(one, at_deadline=AtDeadline.STRICT) for one in guests]
        plan = evacuation.plan(self._hopeful(guests, now), notice, now=now)
        due, wake_at = list(plan.steps), plan.wake_at
        for guest in guests:
            again = self.of(guest.uid).hopeless_until
            if guest.going or now >= again:
                continue
            last = evacuation.latest(guest, notice) if guest.at_deadline is AtDeadline.DELETE else math.inf
            if now >= last:
                due.append(Step(Act.DELETE, guest))
            else:
                wake_at = min(wake_at, last, again)
        steps = []
        for step in due:
            again = self.of(step.guest.uid).failed_at + _AGAIN_S
            if step.act is Act.DELETE and now < again:
                wake_at = min(wake_at, again)
            else:
                steps.append(step)
        return Plan(steps, wake_at)

    def overtaken(self, guests: list[EvictedPod], steps: list[Step], *, now: float) -> list[Step]:
        """See `rota.spot.evacuation.overtaken`; pods whose eviction is impossible are left out."""
        return evacuation.overtaken(self._hopeful(guests, now), steps, now=now)

    def _hopeful(self, guests: list[EvictedPod], now: float) -> list[EvictedPod]:
        return [one for one in guests if now >= self.of(one.uid).hopeless_until]


def policy_of(pod: Document) -> tuple[Policy, str]:
    """The policy in a pod's annotations, and what is wrong with them; then budgets are respected to the end."""
    try:
        return policies.parse(pod["metadata"].get("annotations") or {}), ""
    except PolicyError as problem:
        return Policy(at_deadline=AtDeadline.STRICT), str(problem)
