"""Writes announcements to nodes; all sources use it.

Several processes may receive the same message. Writes are conditional on the version that was read, so one of them
writes and the others find the message recorded. Every message is logged once and counted, with its result. A dry run
sends its patches with `dryRun`.
"""

import asyncio
from typing import Final

from rota.api import errors, times
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.notices import announcements
from rota.notices.announcements import Announcement, Decision, Verdict
from rota.spot.node_signals import NodeSignals

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
#: Attempts to patch a node when writes conflict.
_ATTEMPTS: Final = 6
#: Concurrent requests, independent of the number of notices.
_AT_ONCE: Final = 32
_TIMEOUT_S: Final = 10.0


class Announcer:
    """Writes announcements to nodes."""

    def __init__(
        self, client: Client, marks: NodeSignals, *, clock: Clock, metrics: Metrics | None = None, dry_run: bool = False
    ) -> None:
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S)
        self._marks: Final = marks
        self._clock: Final = clock
        self._dry_run: Final = dry_run
        self._places: Final = asyncio.Semaphore(_AT_ONCE)
        self._heard: Final = (metrics or Metrics("notices")).counter(
            "notices_heard_total",
            "Notices from outside, by what became of them.",
            ("source", "provider", "kind", "outcome"),
        )

    async def announce(self, node: str, said: Announcement, *, sender: str = "", again: bool = False) -> Verdict:
        """Write an announcement to its node; errors of the API server are raised, and the caller retries.

        `again`: the caller repeats what it announced before; that is not logged again.
        """
        async with self._places:
            decision = await self._write(node, said)
        if (said.own or again) and decision.verdict is Verdict.KNOWN:
            return decision.verdict
        self._heard.labels(said.source, said.provider, said.kind.value, decision.verdict.value).inc()
        deadline = {} if decision.deadline is None else {"deadline": times.format_time(decision.deadline)}
        log.info(
            "notice heard",
            node=node,
            source=said.source,
            provider=said.provider,
            kind=said.kind.value,
            outcome=decision.verdict.value,
            id=said.mark,
            **deadline,
            **({"sender": sender} if sender else {}),
            **({"dry_run": True} if self._dry_run else {}),
        )
        return decision.verdict

    async def _write(self, name: str, said: Announcement) -> Decision:
        for attempt in range(_ATTEMPTS):
            try:
                node = await self._client.get(NODES, name)
                now, lead = self._clock.now(), self._marks.lead(said.provider)
                decision = announcements.decide(node, said, now=now, lead=lead)
                if decision.patch is not None:
                    await self._client.patch(NODES, name, decision.patch, dry_run=self._dry_run)
            except errors.NotFound:
                return Decision(Verdict.UNKNOWN)
            except errors.Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return decision
        raise AssertionError("the last attempt returns or raises")
