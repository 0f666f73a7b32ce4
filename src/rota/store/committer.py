"""Group commit: work that arrives during a commit is committed together in the next one.

One durable commit costs about the same for one change as for a hundred, so with many writers this is worth more than
any other optimisation of a write; with a single writer it adds one iteration of the event loop. Order of arrival is
order of revisions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rota.kit.clock import Clock
from rota.store import errors
from rota.store.engine import Applied
from rota.store.metrics import StoreMetrics
from rota.store.store_interface import Put
from rota.store.write_plan import RevokeLease, Verdict, Work

#: A batch ends at this many items of work, or this many bytes of values, so that one commit stays short.
MOST_WORK = 512
MOST_BYTES = 8 * 1024 * 1024

_Waiting = tuple[Work, "asyncio.Future[Verdict]"]


class Committer:
    """Passes batches to `apply`, one at a time; `committed` is called for each before its writers return."""

    def __init__(
        self,
        apply: Callable[[Sequence[Work]], Awaitable[Applied]],
        committed: Callable[[Applied], None],
        *,
        time: Clock,
        metrics: StoreMetrics,
    ) -> None:
        self._apply = apply
        self._committed = committed
        self._time = time
        self._metrics = metrics
        self._queue: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, work: Work) -> Verdict:
        """Commit `work`; returns when it is durable or refused."""
        if self._closed:
            raise errors.Closed
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._queue.append((work, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="store-commit")
        return await future

    async def close(self) -> None:
        """Finish submitted work; refuse new work."""
        self._closed = True
        if self._task:
            # Not awaited directly: a caller that stops waiting must not cancel it.
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        """Commit batch after batch until none is left, then end: an idle store has no task."""
        try:
            while self._queue:
                await self._commit(self._next_batch())
        finally:
            self._task = None
            # Only a cancellation from outside leaves work behind: its writers must not wait for ever.
            for _, future in self._queue:
                future.cancel()
            self._queue.clear()

    async def _commit(self, batch: list[_Waiting]) -> None:
        try:
            began = self._time.monotonic()
            applied = await self._apply([work for work, _ in batch])
            self._metrics.commit_s.observe(self._time.monotonic() - began)
            self._metrics.batch.observe(len(batch))
            self._committed(applied)
        except BaseException as problem:
            # Every writer of the batch gets its result or its exception.
            for _, future in batch:
                if not future.done():
                    future.set_exception(problem) if isinstance(problem, Exception) else future.cancel()
            if not isinstance(problem, Exception):
                raise
            return
        for (_, future), verdict in zip(batch, applied.verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < MOST_WORK and size < MOST_BYTES:
            item = self._queue.popleft()
            size += _size(item[0])
            batch.append(item)
        return batch


def _size(work: Work) -> int:
    if isinstance(work, RevokeLease):
        return 0
    return sum(len(write.value) for write in work.writes if isinstance(write, Put))
