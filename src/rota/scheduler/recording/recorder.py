"""Records decisions while they are made: `--record FILE`.

Changes and decisions are kept in memory as they occur, which costs a decision next to nothing, and a thread writes them
once a second: the cluster at the beginning of the file, then the changes, then each decision after the changes that it
saw. A file that is full is renamed and a new one is begun, so that there are at most two files. A full disk ends the
recording and nothing else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rota
from rota.columns.cluster import Cluster
from rota.columns.deltas import DeltaLog
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.config import encoder
from rota.scheduler.config.wire import KubeSchedulerConfiguration
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.recording import entry_encoder, files
from rota.scheduler.recording.entries import VERSION, Advised, Beginning, Decided, Entry, Outcome
from rota.scheduler.recording.entry_encoder import Delta, EntryEncoder
from rota.scheduler.recording.files import Writer
from rota.scheduler.scheduling_loop import Attempt

log = logs.get(__name__)

#: Maximum size of a file; the two files together have twice that.
LONGEST_FILE: Final = 256 << 20
FLUSH_EVERY_S: Final = 1.0
#: Limit of decisions that wait for a slow disk; beyond it the recording is given up.
_MOST_WAITING: Final = 200_000


@dataclass(frozen=True, slots=True)
class _Taken:
    """A decision as observed; its parts are immutable."""

    changes: list[Delta]
    at: float
    pod: PodInfo
    start: int
    avoiding: tuple[str, ...]
    make_room: bool
    nominations: Mapping[str, Sequence[PodInfo]]
    advice: Advised | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The cluster at one moment: immutable values, to be written by a thread."""

    beginning: Beginning
    pods: list[PodInfo]
    documents: list[tuple[str, Mapping[str, Any]]]


class Recorder:
    """Writes one scheduler's decisions to a file; `observe` is called after each decision."""

    def __init__(
        self,
        path: Path,
        *,
        cluster: Cluster,
        interner: PodInterner,
        configuration: Callable[[], KubeSchedulerConfiguration],
        nominations: Callable[[], Nominations],
        clock: Clock,
        longest: int = LONGEST_FILE,
    ) -> None:
        """`configuration` and `nominations` return the current ones."""
        self._path: Final = path
        self._cluster: Final = cluster
        self._interner: Final = interner
        self._configuration: Final = configuration
        self._nominations: Final = nominations
        self._clock: Final = clock
        self._writer: Final = Writer(path, longest=longest)
        self._takes = EntryEncoder(interner)
        self._log: DeltaLog | None = None
        self._waiting: list[_Taken] = []
        self._writing: asyncio.Task[None] | None = None
        self._told = self._configuration()

    @property
    def recording(self) -> bool:
        """Whether decisions are being recorded."""
        return self._log is not None

    def observe(self, attempt: Attempt) -> None:
        """Record a decision, right after it was made."""
        if self._log is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._give_up("the disk does not keep up")
            return
        nominations = self._nominations()
        self._waiting.append(
            _Taken(
                self._changes(),
                self._clock.now(),
                attempt.pod,
                attempt.start,
                tuple(attempt.avoiding),
                attempt.make_room,
                {node: tuple(pods) for node, pods in nominations.items()} if nominations else {},
                entry_encoder.advised(attempt.advice),
                entry_encoder.outcome(attempt.node_name, attempt.refusal),
            )
        )

    async def run(self) -> None:
        """Write until cancelled; everything observed by then is written before this returns.

        Begins a new file: after a crash of this task, the latest decisions may be missing from the previous one.
        """
        self._waiting.clear()
        self._writer.close()
        try:
            await self._flush()
            while self.recording:
                await self._clock.sleep(FLUSH_EVERY_S)
                await self._flush()
        finally:
            if self._writing is not None:
                await asyncio.wait([self._writing])
            if self.recording and self._written_well():
                with contextlib.suppress(OSError):
                    self._write(self._taken(), self._changes(), None)
                    self._writer.close()
            self._log = None

    def _written_well(self) -> bool:
        return self._writing is None or self._writing.exception() is None

    async def _flush(self) -> None:
        due = self._due()
        self._writing = asyncio.create_task(asyncio.to_thread(self._write, *due))
        try:
            await asyncio.shield(self._writing)
        except OSError as error:
            self._give_up(str(error))

    def _due(self) -> tuple[list[_Taken], list[Delta], _Snapshot | None]:
        """The pending entries and, if a new file is due, the cluster as it is after them."""
        taken, changes = self._taken(), self._changes()
        if not self._writer.full and self._configuration() is self._told:
            return taken, changes, None
        self._told = self._configuration()
        self._log = self._cluster.follow()
        return taken, changes, self._snapshot()

    def _snapshot(self) -> _Snapshot:
        cluster = self._cluster
        beginning = Beginning(
            VERSION,
            rota.__version__,
            self._clock.now(),
            encoder.to_document(self._told),
            [None if node is None else entry_encoder.node_document(node) for node in cluster.nodes],
            list(cluster.free_rows),
        )
        # In the order of each node's pods, which decides between equal victims.
        pods = {uid: pod for node in cluster.node_infos() for uid, pod in node.pods.items()}
        return _Snapshot(beginning, list((pods | cluster.pods).values()), list(cluster.catalog.everything()))

    def _taken(self) -> list[_Taken]:
        taken, self._waiting = self._waiting, []
        return taken

    def _changes(self) -> list[Delta]:
        if self._log is None:
            return []
        changes, self._log.entries = self._log.entries, []
        return changes

    def _write(self, taken: list[_Taken], changes: list[Delta], snapshot: _Snapshot | None) -> None:
        """Write the pending entries; called by one thread at a time."""
        entries = [entry for each in taken for entry in self._entries(each)]
        entries += self._takes.deltas(changes)
        if entries:
            self._writer.append(files.frame(entries))
        if snapshot is not None:
            self._takes = EntryEncoder(self._interner)
            self._writer.begin()
            known = self._takes.everything(snapshot.pods, snapshot.documents)
            self._writer.append(files.frame([snapshot.beginning, *known]))

    def _entries(self, taken: _Taken) -> list[Entry]:
        takes = self._takes
        entries: list[Entry] = list(takes.deltas(taken.changes))
        shapes, nominations = takes.nominations(taken.nominations)
        entries += shapes
        entries += takes.shape(taken.pod)
        pod = taken.pod
        entries.append(
            Decided(
                taken.at,
                pod.shape.scheduler_name,
                takes.pod(pod, pod.node_name),
                taken.start,
                list(taken.avoiding),
                taken.make_room,
                nominations,
                taken.advice,
                taken.outcome,
                dict(pod.manifest) if pod.manifest is not None else None,
            )
        )
        return entries

    def _give_up(self, why: str) -> None:
        self._log = None
        self._waiting.clear()
        log.error("recording ended; scheduling goes on", file=str(self._path), why=why)
