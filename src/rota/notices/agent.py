"""The agent on a machine: polls its cloud's metadata endpoint, and taints its own node.

The endpoint is authoritative: a notice that is missing in three polls in a row is withdrawn, if the agent wrote it. The
API server gets requests only while there is a notice, so thousands of agents cost it nothing. Failed writes are
retried. The only state is the last answer.
"""

from collections.abc import Sequence
from typing import Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.kit import logs
from rota.kit.backoff import Backoff, Policy, Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.notices.announcements import Announcement, Kind, Verdict
from rota.notices.announcer import Announcer
from rota.notices.clouds.cloud_provider import AGENT, Cloud, CloudError

log = logs.get(__name__)

#: Polls in a row without a notice before it is withdrawn, because an endpoint may fail briefly.
_CALM_LOOKS: Final = 3
#: Jitter, so that machines that started together do not poll together.
_JITTER: Final = 0.2
#: A failing endpoint is polled with backoff, but often enough to see a notice in time.
_FAILING: Final = Policy(initial_s=1.0, cap_s=15.0)
_UNHEARD: Final = Policy(initial_s=0.5, cap_s=5.0)


class Agent:
    """Polls for one node."""

    def __init__(
        self,
        announcer: Announcer,
        cloud: Cloud,
        node: str,
        *,
        clock: Clock,
        rng: Rng,
        every_s: float,
        metrics: Metrics | None = None,
    ) -> None:
        self._announcer: Final = announcer
        self._cloud: Final = cloud
        self._node: Final = node
        self._clock: Final = clock
        self._rng: Final = rng
        self._every_s: Final = every_s
        self.metrics: Final = metrics or Metrics("spot_agent", process=True)
        self._looks: Final = self.metrics.counter("looks_total", "Questions to the cloud's endpoint.", ("outcome",))
        #: What was written to the node.
        self._told: frozenset[str] = frozenset()
        #: Whether the node may have a notice that the endpoint does not report, written by a former agent.
        self._unsure = True
        #: For how many polls that was so.
        self._missed = 0
        self._problem = ""
        #: Whether the endpoint's last answer was usable.
        self.healthy = False

    async def run(self) -> None:
        """Poll until cancelled."""
        failing, unheard = Backoff(_FAILING, self._rng), Backoff(_UNHEARD, self._rng)
        while True:
            begun = self._clock.monotonic()
            pause = self._every_s * (1 - _JITTER / 2 + _JITTER * self._rng.random())
            try:
                said = await self._cloud.look()
            except CloudError as problem:
                self._failed(str(problem))
                pause = max(pause, failing.next())
            else:
                self._succeeded()
                failing.reset()
                if await self._tell(said):
                    unheard.reset()
                else:
                    pause = unheard.next()
            await self._clock.sleep(max(0.0, pause - (self._clock.monotonic() - begun)))

    async def _tell(self, said: Sequence[Announcement]) -> bool:
        """Make the node agree with the endpoint; False if that is not done yet."""
        holds = frozenset(one.mark for one in said)
        try:
            for one in said:
                again = one.mark in self._told
                # a node that was deleted and recreated needs the notice again
                if not again or one.kind is Kind.TERMINATION:
                    if await self._announcer.announce(self._node, one, again=again) is Verdict.UNKNOWN:
                        return False
                    self._told |= {one.mark}
            self._missed = self._missed + 1 if self._unsure or self._told - holds else 0
            if self._missed >= _CALM_LOOKS:
                over = Announcement(
                    kind=Kind.WITHDRAWN,
                    source=AGENT,
                    provider=self._cloud.provider,
                    own=True,
                    forgets=True,
                    keeps=frozenset(one.kind for one in said),
                )
                if await self._announcer.announce(self._node, over) is Verdict.UNKNOWN:
                    return False
                self._told, self._unsure, self._missed = holds, False, 0
        except (errors.ApiError, TransportError) as problem:
            log.warning("node not patched yet", node=self._node, error=problem)
            return False
        return True

    def _failed(self, problem: str) -> None:
        self._looks.labels("failed").inc()
        self.healthy = False
        # logged once, not at every poll
        if problem != self._problem:
            self._problem = problem
            log.warning("metadata endpoint cannot be read", node=self._node, problem=problem)

    def _succeeded(self) -> None:
        self._looks.labels("answered").inc()
        self.healthy = True
        if self._problem:
            self._problem = ""
            log.info("metadata endpoint answers again", node=self._node)
