"""Records decisions while they are made: `--record FILE`.

Changes and decisions are kept in memory as they occur, which costs a decision next to nothing, and a thread writes them
once a second: the cluster at the beginning of the file, then the changes, then each decision after the changes that it
saw. A file that is full is renamed and a new one is begun, so that there are at most two files. A full disk ends the
recording and nothing else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import rota
from rota.columns.cluster import Cluster
from rota.columns.deltas import DeltaLog
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.config import encoder
from rota.scheduler.config.wire import KubeSchedulerConfiguration
from rota.scheduler.core import attempts
from rota.scheduler.core.attempts import Attempt
from rota.scheduler.core.events import BindingEnded, Event, EvictionsEnded, PodChanged
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.recording import entry_encoder, line_codec, trace_files, trace_lines
from rota.scheduler.recording.entries import VERSION, Advised, Beginning, Decided, Entry, Outcome
from rota.scheduler.recording.entry_encoder import Delta, EntryEncoder
from rota.scheduler.recording.files import Writer
from rota.scheduler.recording.trace_lines import AnyLine

log = logs.get(__name__)

_PodLine: TypeAlias = trace_lines.PodArrived | trace_lines.PodUpdated | trace_lines.PodSeen

#: Maximum size of a file; the two files together have twice that.
LONGEST_FILE: Final = 256 << 20
FLUSH_EVERY_S: Final = 1.0
#: Limit of decisions that wait for a slow disk; beyond it the recording is given up.
_MOST_WAITING: Final = 200_000


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the scheduler was told, with the changes of its cache by then."""

    changes: list[Delta]
    now: float
    event: Event


@dataclass(frozen=True, slots=True)
class _Taken:
    """A decision as observed; its parts are immutable."""

    changes: list[Delta]
    now: float
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
    #: Pods without a node.
    waiting: list[PodInfo]


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
        queued: Callable[[], Iterable[PodInfo]] = tuple,
    ) -> None:
        """`configuration`, `nominations` and `queued`, the pods without a node, return the current ones."""
        self._queued: Final = queued
        self._path: Final = path
        self._cluster: Final = cluster
        self._interner: Final = interner
        self._configuration: Final = configuration
        self._nominations: Final = nominations
        self._clock: Final = clock
        self._writer: Final = Writer(path, longest=longest)
        self._takes = EntryEncoder(interner)
        self._log: DeltaLog | None = None
        self._waiting: list[_Taken | _Heard] = []
        #: The scheduler's clock at the beginning of the file.
        self._clock_began = clock.monotonic()
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
                attempt.now or self._clock.monotonic(),
                attempt.pod,
                attempt.start,
                tuple(attempt.avoiding),
                attempt.make_room,
                {node: tuple(pods) for node, pods in nominations.items()} if nominations else {},
                entry_encoder.advised(attempt.advice),
                entry_encoder.outcome(attempt.node_name, attempt.refusal),
            )
        )

    def hear(self, event: Event, now: float) -> None:
        """Record what the scheduler was told, right after it was handled."""
        if self._log is None:
            return
        changes = self._changes()
        if changes or isinstance(event, PodChanged | BindingEnded | EvictionsEnded):
            self._waiting.append(_Heard(changes, now, event))

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

    def _due(self) -> tuple[list[_Taken | _Heard], list[Delta], _Snapshot | None]:
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
            self._clock.monotonic(),
        )
        # In the order of each node's pods, which decides between equal victims.
        pods = {uid: pod for node in cluster.node_infos() for uid, pod in node.pods.items()}
        known, documents = list((pods | cluster.pods).values()), list(cluster.catalog.everything())
        return _Snapshot(beginning, known, documents, list(self._queued()))

    def _taken(self) -> list[_Taken | _Heard]:
        taken, self._waiting = self._waiting, []
        return taken

    def _changes(self) -> list[Delta]:
        if self._log is None:
            return []
        changes, self._log.entries = self._log.entries, []
        return changes

    def _write(self, taken: list[_Taken | _Heard], changes: list[Delta], snapshot: _Snapshot | None) -> None:
        """Write the pending entries; called by one thread at a time."""
        lines = [line for each in taken for line in self._lines(each)]
        last = taken[-1].now - self._clock_began if taken else 0.0
        lines += self._written(self._takes.deltas(changes), last)
        if lines:
            self._writer.append(trace_files.packed(lines))
        if snapshot is not None:
            self._takes = EntryEncoder(self._interner)
            self._clock_began = snapshot.beginning.clock
            self._writer.begin()
            known = self._takes.everything(snapshot.pods, snapshot.documents)
            waiting = (line for pod in snapshot.waiting for line in self._pod_lines(pod, trace_lines.PodArrived, 0.0))
            self._writer.append(trace_files.packed([*self._written([snapshot.beginning, *known], 0.0), *waiting]))

    def _written(self, entries: Iterable[Entry], at: float) -> list[AnyLine]:
        return [line for entry in entries for line in line_codec.lines(entry, max(at, 0.0))]

    def _lines(self, each: _Taken | _Heard) -> list[AnyLine]:
        at = round(max(each.now - self._clock_began, 0.0), line_codec.DIGITS)
        if isinstance(each, _Taken):
            return self._written(self._entries(each, at), at)
        found = self._written(self._takes.deltas(each.changes), at)
        match each.event:
            case PodChanged(_, PodInfo() as new) if new.node_name:
                found += self._pod_lines(new, trace_lines.PodSeen, at)
            case PodChanged(None, PodInfo() as new):
                found += self._pod_lines(new, trace_lines.PodArrived, at)
            case PodChanged(_, PodInfo() as new):
                found += self._pod_lines(new, trace_lines.PodUpdated, at)
            case PodChanged(PodInfo() as old, None):
                found.append(trace_lines.PodGone(at=at, uid=old.uid))
            case BindingEnded(taken, status):
                failure = "" if status.ok else ", ".join(status.reasons) or status.code.value
                conflict = not status.ok and attempts.lost_race(status)
                found.append(trace_lines.PodBound(at=at, uid=taken.pod.uid, failure=failure, conflict=conflict))
            case EvictionsEnded(preemptor, evicted, failed):
                uids = tuple(pod.uid for pod in evicted)
                found.append(trace_lines.PodsEvicted(at=at, preemptor=preemptor.uid, uids=uids, failed=failed))
            case _:
                pass
        return found

    def _pod_lines(self, pod: PodInfo, line: type[_PodLine], at: float) -> list[AnyLine]:
        """What the scheduler was told about a pod."""
        shapes = self._written(self._takes.shape(pod), at)
        return [*shapes, line(at=at, **line_codec.pod_fields(self._takes.pod(pod, pod.node_name)))]

    def _entries(self, taken: _Taken, at: float) -> list[Entry]:
        takes = self._takes
        entries: list[Entry] = list(takes.deltas(taken.changes))
        shapes, nominations = takes.nominations(taken.nominations)
        entries += shapes
        entries += takes.shape(taken.pod)
        pod = taken.pod
        entries.append(
            Decided(
                at,
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
