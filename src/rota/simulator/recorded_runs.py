"""A recorded run, simulated with the same arrivals and latencies: whether the same decisions come in the same order.

The scheduler's core gets everything that the recorded scheduler was told (pods, nodes, results of bindings and
evictions) at the recorded times, and nothing of what it decided. At the time of each recorded decision it makes one
attempt. The pod whose turn it is, its node and its victims must be those of the recording.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rota.api import errors
from rota.api.errors import Cause, Details
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.core import configured
from rota.scheduler.core.attempts import Attempt
from rota.scheduler.core.effects import Bind
from rota.scheduler.core.events import (
    BindingEnded,
    Event,
    EvictionsEnded,
    NodeChanged,
    ObjectChanged,
    PodChanged,
)
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.cycle.scheduling_cycle import AssumedPod
from rota.scheduler.framework.registry import Registry
from rota.scheduler.framework.status import SUCCESS, Code, Status
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.recording import entry_encoder, trace_lines
from rota.scheduler.recording.entries import Outcome
from rota.scheduler.recording.trace_files import TraceReader
from rota.scheduler.recording.trace_lines import AnyLine

#: Attempts that may pass without a decision, for pods that were deleted meanwhile.
_MOST_SILENT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first decision that differs."""

    #: Its number, from 1, and its time in seconds since the beginning.
    number: int
    at: float
    then_pod: str
    then: Outcome
    #: The pod that was tried instead; empty if none was ready.
    now_pod: str
    now: Outcome | None

    def __str__(self) -> str:
        was = f"{self.then_pod} {_told(self.then)}"
        instead = f"{self.now_pod} {_told(self.now)}" if self.now is not None else "no pod was ready"
        return f"decision {self.number} at {self.at:.3f} s: recorded {was}; simulated {instead}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a simulation agrees with a recording."""

    decisions: int
    #: None if all decisions are the same.
    first_difference: Divergence | None


def compare(path: Path, registry: Registry | None = None) -> Agreement:
    """Simulate a recording, up to its end or to the first decision that differs."""
    return _RecordedRun(path, registry or builtin.registry()).compare()


class _RecordedRun:
    def __init__(self, path: Path, registry: Registry) -> None:
        self._reader: Final = TraceReader(path)
        header = self._reader.header()
        self._base: Final = header.clock
        try:
            loaded = third_party.load_settings(resolution.read(header.configuration or {}), registry)
        except ConfigurationError as error:
            raise UserError(f"{path}: its configuration cannot be used here: {error}") from error
        decisions = [line for _, line in self._reader.lines() if isinstance(line, trace_lines.Decision)]
        if any(line.advice is not None for line in decisions):
            raise UserError(f"{path} was recorded with extenders, which a simulation cannot ask", "use rota replay")
        start = decisions[0].start if decisions else 0
        self._manifests: Final = {line.uid: line.pod for line in decisions if line.pod is not None}
        self._interner: Final = PodInterner()
        self._templates: Final[dict[str, PodInfo]] = {}
        self._known: Final[dict[str, PodInfo]] = {}
        self._objects: Final[dict[tuple[str, str, str], dict[str, Any]]] = {}
        self._taken: Final[dict[str, AssumedPod]] = {}
        self._attempt: Attempt | None = None
        self._resources: Final = {each.kind: each.event_resource for each in watched_kinds.BUILTIN.values()}
        self._core: Final[SchedulerCore] = configured.make_core(loaded.configuration, loaded.registry, start=start)
        self._core.observers.append(self._observe)

    def compare(self) -> Agreement:
        number = 0
        for _, line in self._reader.lines():
            now = self._base + line.at
            if isinstance(line, trace_lines.Decision):
                number += 1
                different = self._decide(line, number, now)
                if different is not None:
                    return Agreement(number, different)
            elif (event := self._event(line)) is not None:
                self._core.handle(event, now)
        return Agreement(number, None)

    def _observe(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def _decide(self, line: trace_lines.Decision, number: int, now: float) -> Divergence | None:
        self._attempt = None
        for _ in range(_MOST_SILENT):
            effects = self._core.step(now)
            for effect in effects or ():
                if isinstance(effect, Bind):
                    self._taken[effect.taken.pod.uid] = effect.taken
            if effects is None or self._attempt is not None:
                break
        then = Outcome(line.chosen, line.message, line.room, line.victims)
        made = self._attempt
        if made is None:
            return Divergence(number, line.at, line.name, then, "", None)
        outcome = entry_encoder.outcome(made.node_name, made.refusal)
        if made.pod.uid == line.uid and outcome == then:
            return None
        return Divergence(number, line.at, line.name, then, made.pod.name, outcome)

    def _event(self, line: AnyLine) -> Event | None:
        match line:
            case trace_lines.Template():
                self._templates[line.name] = self._interner.pod(line.pod)
            case trace_lines.NodeSet():
                node = read_node(line.node)
                return NodeChanged(node.metadata.name, node)
            case trace_lines.NodeGone():
                return NodeChanged(line.name, None)
            case trace_lines.ObjectSet() | trace_lines.ObjectGone():
                return self._object(line)
            case trace_lines.PodPlaced() if line.uid not in self._known:
                # A pod of the first list, which the scheduler takes over in bulk.
                return self._pod(line)
            case trace_lines.PodArrived() | trace_lines.PodUpdated() | trace_lines.PodSeen():
                return self._pod(line)
            case trace_lines.PodGone():
                return PodChanged(self._known.pop(line.uid, None), None)
            case trace_lines.PodBound() if line.uid in self._taken:
                return BindingEnded(self._taken.pop(line.uid), _status(line))
            case trace_lines.PodsEvicted() if line.preemptor in self._known:
                evicted = [self._known[uid] for uid in line.uids if uid in self._known]
                return EvictionsEnded(self._known[line.preemptor], evicted, line.failed)
        return None

    def _pod(self, line: trace_lines.PodLine) -> PodChanged:
        pod = PodInfo(
            uid=line.uid,
            name=line.name,
            shape=self._templates[line.template].shape,
            node_name=line.node,
            nominated_node=line.nominated,
            start_time=line.start_time,
            preempted=line.preempted,
            gpu_devices=line.devices,
            kept=None if line.node else self._manifests.get(line.uid),
        )
        old, self._known[line.uid] = self._known.get(line.uid), pod
        return PodChanged(old, pod)

    def _object(self, line: trace_lines.ObjectSet | trace_lines.ObjectGone) -> ObjectChanged:
        resource = self._resources.get(line.kind)
        if isinstance(line, trace_lines.ObjectGone):
            key = line.kind, line.namespace, line.name
            return ObjectChanged(line.kind, resource, key[1], key[2], self._objects.pop(key, None), None)
        metadata = line.document.get("metadata") or {}
        key = line.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        old = self._objects.get(key)
        self._objects[key] = line.document
        return ObjectChanged(line.kind, resource, key[1], key[2], old, line.document)


def _status(line: trace_lines.PodBound) -> Status:
    if not line.failure:
        return SUCCESS
    if line.conflict:
        details = Details(causes=(Cause(type="InsufficientResource", message=line.failure),))
        return Status(Code.ERROR, (line.failure,), error=errors.Conflict(line.failure, details=details))
    return Status(Code.ERROR, (line.failure,))


def _told(outcome: Outcome) -> str:
    if outcome.node:
        return f"on {outcome.node}"
    if outcome.nominated:
        return f"evicts {', '.join(outcome.victims)} on {outcome.nominated}"
    return f"nowhere: {outcome.message}"
