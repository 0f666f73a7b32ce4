"""Whether a cluster counts as ready: observations that must last, and heartbeats that must not stop."""

from dataclasses import dataclass
from typing import Final, TypeAlias

#: The status of a condition: True, False or Unknown.
Status: TypeAlias = str

UNKNOWN: Final = "Unknown"


class Threshold:
    """Publishes a change of readiness only after it was observed for some time."""

    def __init__(self, success_s: float, failure_s: float) -> None:
        self._success_s = success_s
        self._failure_s = failure_s
        self._observed: Status | None = None
        self._since = float("-inf")

    def published(self, current: Status | None, observed: Status, now: float) -> Status:
        """What to publish, given what is published now and what was just observed."""
        if self._observed is None:
            self._observed = observed
            return observed
        if current is None:
            return observed
        if self._observed != observed:
            self._observed, self._since = observed, now
        lasts_s = self._success_s if observed == "True" else self._failure_s
        turns = (observed == "True") != (current == "True")
        return current if turns and now < self._since + lasts_s else observed


@dataclass(frozen=True, slots=True)
class Condition:
    """A Ready condition: its status, and whether the monitor itself wrote it."""

    status: Status
    by_monitor: bool = False


@dataclass(frozen=True, slots=True)
class _NoLease:
    """A lease was looked for in vain; as upstream has it, a later one counts only after the cluster has reported."""


class Monitor:
    """Watches the heartbeats of one cluster, and says when its readiness is unknown."""

    def __init__(self, created: float, grace_s: float, startup_grace_s: float) -> None:
        self._created = created
        self._grace_s = grace_s
        self._startup_grace_s = startup_grace_s
        self._probed: float | None = None
        self._seen: Condition | None = None
        self._lease: float | _NoLease | None = None

    def check(self, ready: Condition | None, lease: float | None, now: float, *, pushed: bool) -> Condition | None:
        """The Ready condition after a check, given the one there is and when the lease was renewed (None: never)."""
        grace_s = self._grace_s
        saved_lease = self._lease
        if ready is None:
            grace_s = self._startup_grace_s
            if self._probed is None:
                self._probed = self._created
            self._seen = None
        elif self._probed is None or self._seen != ready:
            self._probed, self._seen, self._lease = now, ready, None
        if pushed:
            return ready
        if lease is not None and self._is_newer(lease, saved_lease):
            self._lease, self._probed = lease, now
        assert self._probed is not None, "set above"
        if now <= self._probed + grace_s:
            return ready
        if ready is not None and ready.status == UNKNOWN:
            return ready
        self._seen = Condition(UNKNOWN, by_monitor=True)
        self._lease = _NoLease() if lease is None else lease
        return self._seen

    @staticmethod
    def _is_newer(lease: float, saved: float | _NoLease | None) -> bool:
        return saved is None or (not isinstance(saved, _NoLease) and saved < lease)
