"""The work of one of several schedulers while it holds its Lease: its share of the pods, and perhaps batch scheduling.

Batch scheduling divides queues' quotas over all groups of the cluster, so one scheduler does all of it: the one that
the map gives `BATCH_KEY`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from rota.kit import logs
from rota.scheduler.core import attempts
from rota.scheduler.core.events import BindingEnded, Event
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.ingest.event_handlers import EventHandlers
from rota.scheduler.scheduling_loop import SchedulingLoop
from rota.scheduler.sharding.node_knowledge import NodeKnowledge, Synchronisation
from rota.scheduler.sharding.shard_feed import ShardFeed
from rota.scheduler.sharding.shard_map import BATCH_KEY
from rota.scheduler.sharding.shard_member import Figures, ShardMember

log = logs.get(__name__)

#: How long a round takes in which one part of the cluster is learned.
ROUND_S: Final = 0.25
#: How long after a crash batch scheduling starts again.
_AGAIN_S: Final = 1.0


class ShardedWork:
    """Connects a member with the core that it decides by."""

    def __init__(
        self,
        member: ShardMember,
        core: SchedulerCore,
        handlers: EventHandlers,
        loop: SchedulingLoop,
        version: Callable[[], str],
    ) -> None:
        """`version` is the resourceVersion up to which the informer of pods knows everything."""
        self._member: Final = member
        self._core: Final = core
        self._attempts: Final = loop
        cluster = core.cache.cluster
        self.knowledge: Final = NodeKnowledge(
            lambda name: node.row if (node := cluster.by_name.get(name)) is not None else None,
            lambda: cluster.size,
            version,
        )
        self.feed: Final = ShardFeed(member.ownership, core, handlers, loop.feed, self.knowledge)
        core.listeners.append(self._listen)
        self._run_batch: Callable[[], Awaitable[None]] | None = None
        self._batch: asyncio.Future[None] | None = None
        member.reassign, member.figures = self._reassign, self._figures
        member.choose = self._choose

    async def run(self, run_batch: Callable[[], Awaitable[None]] | None) -> None:
        """Be a member until cancelled; `run_batch` schedules batches, while that is this scheduler's."""
        self._run_batch = run_batch
        parts = [asyncio.ensure_future(self._member.run()), asyncio.ensure_future(self._rounds())]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in parts:
                one.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            self._run_batch = None
            await self._end_batch()
            self.feed.apply(self.knowledge.all())

    async def _rounds(self) -> None:
        """Learn one part of the cluster after the other, while the operator chose that."""
        while True:
            await self._attempts.using.clock.sleep(ROUND_S)
            if self.knowledge.partial:
                number, _ = self._member.share
                changes, first_row = self.knowledge.next_round(number)
                self.feed.apply(changes)
                if self.knowledge.choices.synchronisation is Synchronisation.FRESHEST_FIRST:
                    self._core.start = first_row

    def _choose(self) -> None:
        _, members = self._member.share
        self.feed.apply(self.knowledge.configure(self._member.choices, members))

    def _listen(self, event: Event, _: float) -> None:
        if self.knowledge.partial and isinstance(event, BindingEnded) and attempts.lost_race(event.status):
            # The loser learns this one node before it takes its next best. In the next turn: the core is in the middle
            # of an event.
            node = event.taken.node_name
            asyncio.get_running_loop().call_soon(lambda: self.feed.apply(self.knowledge.learn_node(node)))

    def _reassign(self) -> int:
        left = self.feed.reassign()
        number, members = self._member.share
        self._choose()
        # Of equally good nodes each scheduler begins at another part of the cluster, so that they seldom meet.
        self._core.start = self._core.cache.cluster.size * number // members
        owns_batch = self._run_batch is not None and self._member.ownership.owns_key(BATCH_KEY)
        if owns_batch and self._batch is None and self._run_batch is not None:
            self._batch = asyncio.ensure_future(self._keep_running(self._run_batch))
        elif not owns_batch and self._batch is not None:
            self._batch.cancel()
            # Its last requests must have ended before the map is acknowledged.
            left += not self._batch.done()
            if self._batch.done():
                self._batch = None
        if left == 0:
            self._attempts.wake()
        return left

    async def _keep_running(self, run_batch: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await run_batch()
            except Exception as error:
                log.exception("batch scheduling crashed; it starts again", error=error)
                await self._attempts.using.clock.sleep(_AGAIN_S)

    async def _end_batch(self) -> None:
        if self._batch is not None:
            self._batch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._batch
            self._batch = None

    def _figures(self) -> Figures:
        figures = self._attempts.using.figures
        return Figures(
            queued=len(self._core.queue),
            bound=figures.bound_total,
            conflicts=figures.conflicts_total,
            decided=figures.decided_total,
        )
