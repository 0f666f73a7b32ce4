"""Compaction: removes history that is older than a limit.

Kubernetes clients resume a watch within minutes or list again, so five minutes of history are enough. Every process
that runs this does so independently; raising the floor twice to the same revision has no effect.
"""

from collections import deque
from typing import Final

from rota.kit import clock, logs
from rota.store import errors, holds
from rota.store.metrics import StoreMetrics
from rota.store.store_interface import Store

log = logs.get(__name__)

#: How long a reader, such as a backup, may keep history from being compacted.
_LONGEST_HOLD_S: Final = 3600.0


class Compactor:
    """Removes history older than `keep_s`, every `every_s`."""

    def __init__(
        self,
        store: Store,
        *,
        time: clock.Clock,
        keep_s: float = 300.0,
        every_s: float = 30.0,
        metrics: StoreMetrics | None = None,
    ) -> None:
        self._store = store
        self._time = time
        self._keep_s = keep_s
        self._every_s = every_s
        self._metrics = metrics or StoreMetrics()
        #: (moment, newest revision at that moment), oldest first.
        self._noted: deque[tuple[float, int]] = deque()
        #: When holds were first seen, and those that are too old.
        self._holds: dict[str, float] = {}
        self._overdue: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.step()
            except errors.StoreError as problem:
                log.warning("compaction failed, trying again", problem=str(problem))
            await self._time.sleep(self._every_s)

    async def step(self) -> None:
        """Record the newest revision, and compact what is older than `keep_s`."""
        revision_range = await self._store.revision_range()
        now = self._time.monotonic()
        self._noted.append((now, revision_range.revision))
        target = 0
        while self._noted and self._noted[0][0] <= now - self._keep_s:
            target = self._noted.popleft()[1]
        if target > revision_range.floor:
            target = min([target, *await self._held(now)])
        if target > revision_range.floor:
            await self._store.compact(target)
            log.debug("history compacted", floor=target)
        self._metrics.revision.set(revision_range.revision)
        self._metrics.compact_revision.set(max(target, revision_range.floor))
        self._metrics.history_s.set(now - self._noted[0][0] if self._noted else 0.0)
        self._metrics.size_bytes.set(await self._store.size_bytes())

    async def _held(self, now: float) -> list[int]:
        """Revisions that readers hold, except those held for too long: history must not grow without bound."""
        found = await holds.held(self._store)
        self._holds = {key: self._holds.get(key, now) for key in found}
        overdue = {key for key, since in self._holds.items() if now - since > _LONGEST_HOLD_S}
        for key in overdue - self._overdue:
            log.warning("a reader held history for too long, compacting it anyway", key=key, revision=found[key])
        self._overdue = overdue
        return [revision for key, revision in found.items() if key not in overdue]
