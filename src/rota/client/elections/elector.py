"""Leader election: acquires a Lease, leads while it can be renewed, and stops in time.

    elector = LeaderElector(client, Election(name="scheduler", identity=host), clock=clock, rng=rng)
    supervisor.start("leader", lambda: elector.run(lead))

`lead(term)` runs only while this process leads. It is cancelled `renew_deadline_s` after the start of the last write
that renewed the Lease. Other candidates wait for `lease_duration_s` after they have seen that write, which is later;
the difference is the time for `lead` to stop. Writes that two leaders must never make carry the term as a fencing
token, since a paused process does not notice the end of its Lease.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors
from rota.client.elections import lease_claims
from rota.client.elections.lease_claims import Observation, Term
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

LEASES: Final = ("coordination.k8s.io", "v1", "leases")
#: The default namespace of the Leases of a cluster's components.
SYSTEM: Final = "kube-system"
#: Factor between the longest and the shortest retry period, so that candidates do not synchronise.
_JITTER: Final = 1.2


class LeadershipLost(Exception):
    """The Lease could not be renewed in time, or another process holds it; campaign again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The timing of an election; the defaults are upstream's.

    After a leader has crashed, the next one leads within `lease_duration_s` plus at most one `retry_period_s`.
    """

    lease_duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration_s > self.renew_deadline_s > self.retry_period_s * _JITTER > 0:
            raise ValueError(
                f"a leader needs lease_duration_s > renew_deadline_s > {_JITTER} * retry_period_s > 0, "
                f"got {self.lease_duration_s}, {self.renew_deadline_s} and {self.retry_period_s}"
            )


#: For work that is waited for and cheap to take over: the next leader works within three seconds.
PROMPT: Final = Pace(lease_duration_s=2, renew_deadline_s=1.8, retry_period_s=0.4)
#: For work that needs some reading to take over and tolerates a pause of some seconds: a store outage of less than five
#: seconds does not cost the leadership.
STEADY: Final = Pace(lease_duration_s=6, renew_deadline_s=5.0, retry_period_s=1.0)
#: For a process without competitors.
UNHURRIED: Final = Pace(lease_duration_s=30, renew_deadline_s=25.0, retry_period_s=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The Lease, the candidate's identity, and the timing.

    An identity belongs to one process at a time. A process that starts with the identity of a former one, which it
    knows to be dead, gets its Lease at once.
    """

    name: str
    identity: str
    namespace: str = SYSTEM
    pace: Pace = Pace()
    release_on_cancel: bool = True

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("a candidate needs an identity that no other has")


class LeaderElector:
    """One candidate."""

    def __init__(
        self,
        client: Client,
        election: Election,
        *,
        clock: Clock,
        rng: Rng,
        on_new_leader: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_new_leader` is called with the identity of every new leader, our own included."""
        self._client: Final = client.with_settings(timeout_s=election.pace.renew_deadline_s / 2, retry=False)
        self._election: Final = election
        self._clock: Final = clock
        self._rng: Final = rng
        self._on_new_leader: Final = on_new_leader
        self._told = ""
        self._lease: Object | None = None
        self._seen: Observation | None = None
        self._term: Term | None = None
        #: The start of the last write that acquired or renewed the Lease: other candidates can have seen it that early.
        self._renewed_at = -math.inf
        self._log: Final = log.bind(lease=f"{election.namespace}/{election.name}", identity=election.identity)

    @property
    def leader(self) -> str:
        """The leader when the Lease was last read; empty if there was none."""
        return self._seen.holder if self._seen is not None else ""

    @property
    def term(self) -> Term | None:
        """Our term, if no other process can have taken over by now."""
        return self._term if self._clock.monotonic() < self._renewed_at + self._election.pace.lease_duration_s else None

    async def run(self, lead: Callable[[Term], Awaitable[None]]) -> None:
        """Wait for the Lease and lead until `lead` returns; `LeadershipLost` if it had to be cancelled."""
        self._term = None
        term = await self._acquire()
        self._log.info("leading", transitions=term.transitions)
        leading = asyncio.ensure_future(lead(term))
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.done() and not leading.done()
        finally:
            # The work ends before the Lease does.
            await _ended(leading, renewing)
            still_ours = self.term is not None and not self._succeeded()
            self._term, self._renewed_at = None, -math.inf
            if still_ours and self._election.release_on_cancel:
                await self._release()
        if lost:
            self._log.warning("leadership lost", leader=self.leader)
            raise LeadershipLost(f"{self._election.identity} no longer holds the lease {self._election.name}")
        await leading

    async def _acquire(self) -> Term:
        while True:
            # If the answer came too late to lead, the Lease is claimed again.
            if await self._attempt() and self._clock.monotonic() < self._renew_by:
                assert self._lease is not None
                self._term = lease_claims.term_of(self._lease)
                return self._term
            await self._clock.sleep(self._pause())

    @property
    def _renew_by(self) -> float:
        """When the work stops if the Lease is not renewed before."""
        return self._renewed_at + self._election.pace.renew_deadline_s

    def _pause(self) -> float:
        """The delay until the next attempt: at most a period, and not beyond the Lease's expiry."""
        pause = self._election.pace.retry_period_s * (1 + _JITTER * self._rng.random()) / (1 + _JITTER)
        left = 0.0 if self._seen is None else self._seen.until - self._clock.monotonic()
        return min(pause, left) if left > 0 else pause

    async def _renew(self) -> None:
        """Return when the Lease could not be renewed in time."""
        identity, pace = self._election.identity, self._election.pace
        while True:
            left = self._renew_by - self._clock.monotonic()
            if left <= 0:
                return
            if not await self._attempt_within(left) and (self.leader not in {"", identity} or self._succeeded()):
                return
            left = self._renew_by - self._clock.monotonic()
            await self._clock.sleep(min(pace.retry_period_s, left))

    async def _attempt_within(self, seconds: float) -> bool:
        try:
            return await self._clock.wait_for(self._attempt(), seconds)
        except TimeoutError:
            return False

    async def _attempt(self) -> bool:
        """Acquire or renew once; returns whether we hold the Lease."""
        try:
            held = await self._claim()
        except (errors.ApiError, TransportError) as error:
            # Our copy of the Lease may be out of date: the next attempt reads it again.
            self._lease = None
            self._log.info("lease not acquired", error=error)
            return False
        if self.leader and self.leader != self._told:
            self._told = self.leader
            self._on_new_leader(self.leader)
        return held

    async def _claim(self) -> bool:
        election, duration_s = self._election, self._election.pace.lease_duration_s
        lease = self._lease if self._renewing() else None
        if lease is None:
            try:
                lease = await self._client.get(LEASES, election.name, namespace=election.namespace)
            except errors.NotFound:
                spec = lease_claims.first_claim(election.identity, duration_s=duration_s, now=self._clock.now())
                metadata = {"name": election.name, "namespace": election.namespace}
                made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
                began = self._clock.monotonic()
                self._remember(await self._client.create(LEASES, made))
                self._renewed_at = began
                return True
        self._remember(lease)
        assert self._seen is not None
        if self._succeeded() or not lease_claims.may_claim(self._seen, election.identity, self._clock.monotonic()):
            return False
        spec = lease_claims.next_claim(
            lease.get("spec") or {},
            election.identity,
            duration_s=duration_s,
            now=self._clock.now(),
            renewing=self._term is not None,
        )
        # The write has the resourceVersion that was read: if another candidate was faster, it is a conflict.
        began = self._clock.monotonic()
        self._remember(await self._client.update(LEASES, {**lease, "spec": spec}))
        self._renewed_at = began
        return True

    def _renewing(self) -> bool:
        """Whether the Lease is known well enough to be renewed without reading it first."""
        return self._term is not None and self.leader == self._election.identity

    def _succeeded(self) -> bool:
        """Whether another term has begun since ours, possibly under our own identity."""
        return self._term is not None and self._seen is not None and self._seen.transitions != self._term.transitions

    def _remember(self, lease: Object) -> None:
        self._lease = lease
        self._seen = lease_claims.observe(self._seen, lease, self._clock.monotonic())

    async def _release(self) -> None:
        lease = self._lease
        if lease is None or self.leader != self._election.identity:
            return
        spec: dict[str, Any] = lease_claims.release(lease["spec"], now=self._clock.now())
        try:
            self._remember(await self._client.update(LEASES, {**lease, "spec": spec}))
        except (errors.ApiError, TransportError) as error:
            self._log.warning("lease not released; it runs out by itself", error=error)


async def _ended(*tasks: "asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
