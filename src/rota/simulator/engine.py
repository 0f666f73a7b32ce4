"""The engine: discrete events on a heap, in virtual time, around the scheduler's pure core.

The core decides; the engine carries out its effects with the latencies of the models, and tells it what the trace and
the models let happen: pods that arrive and end, nodes that come, fail and go. Equal times are handled in a fixed order
(changes of the trace, then everything else in the order in which it was planned, then arrivals); then the core makes
attempts until it has nothing to try. So a run is a function of the trace, the configuration, the models and the seed.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.api import meta, times
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.core import configured
from rota.scheduler.core.attempts import Attempt
from rota.scheduler.core.effects import AttemptFailed, Bind, Effect, Evict, PatchStatus
from rota.scheduler.core.events import BindingEnded, EvictionsEnded, NodeChanged, ObjectChanged, PodChanged
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.cycle.scheduling_cycle import AssumedPod
from rota.scheduler.framework.status import SUCCESS, Code, Status
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.recording import trace_lines
from rota.scheduler.recording.trace_lines import AnyLine
from rota.simulator import arrivals, meters
from rota.simulator.meters import Meters
from rota.simulator.models import Models
from rota.simulator.node_changes import Disturbances, NodePools
from rota.simulator.tied_cycles import tied
from rota.simulator.ties import TieRule
from rota.simulator.traces import FOREVER, Document, Trace

#: Ranks of events at the same time.
_CHANGE, _PLANNED = 0, 1
_NODE_GONE: Final = Status(Code.ERROR, ("the node is gone",))
#: Events between two calls that tell how far the run is.
_TELL_EVERY: Final = 4096

#: Called with the part of the arrivals that are done, and the virtual time.
Advance = Callable[[float, float], None]


@dataclass(slots=True)
class _Running:
    """A pod that exists: where it is, and how long it is to run."""

    pod: PodInfo
    template: int
    duration: float
    arrived_at: float


@dataclass(frozen=True, slots=True)
class Options:
    """What a run depends on besides its trace and its configuration."""

    models: Models = field(default_factory=Models)
    ties: TieRule = TieRule.NAME
    #: The run ends at this time at the latest.
    until_s: float = FOREVER


class Engine:
    """One run."""

    def __init__(self, trace: Trace, loaded: Loaded, *, seed: int, options: Options | None = None) -> None:
        self._options: Final = options or Options()
        self._models: Final = self._options.models
        self._trace: Final = trace
        self.rng: Final = arrivals.generator(seed)
        self.now = 0.0
        self._heap: Final[list[tuple[float, int, int, bool, Callable[..., None], tuple[Any, ...]]]] = []
        self._planned = 0
        #: How many of the planned events are in the background.
        self._background = 0
        self._interner: Final = PodInterner()
        self._like: Final = [self._interner.pod(document, keep=True) for document in trace.templates]
        self._amounts: Final = [meters.shown_amounts(each.shape.requests) for each in self._like]
        self._going: Final[dict[int, PodInfo]] = {}
        self._pods: Final[dict[str, _Running]] = {}
        self.node_documents: Final[dict[str, Document]] = {}
        self._objects: Final[dict[tuple[str, str, str], Document]] = {}
        self.meters: Final = Meters(self._models)
        cache = SchedulerCache(interner=self._interner)
        self.core: Final[SchedulerCore] = configured.make_core(
            loaded.configuration, loaded.registry, cache=cache, start=0
        )
        self.core.cycles = tied(self.core.cycles, self._options.ties, cache.cluster, self.rng)
        self._resources: Final = {each.kind: each.event_resource for each in watched_kinds.BUILTIN.values()}
        self._busy_until = 0.0
        self._disturbances: Final = Disturbances(self, self._models)
        self._pools: Final = NodePools(self, self._models.pools)

    def observe(self, observer: Callable[[Attempt], None]) -> None:
        """Have every decision observed."""
        self.core.observers.append(observer)

    def run(self, advance: Advance | None = None) -> Meters:
        """Run to the end."""
        self._begin()
        trace, heap, until = self._trace, self._heap, self._options.until_s
        at, position, number = trace.at, 0, len(trace)
        events = 0
        while True:
            next_arrival = float(at[position]) if position < number else FOREVER
            if position >= number and self._settled():
                break
            timer = self._timer()
            moment = min(next_arrival, heap[0][0] if heap else FOREVER, timer)
            if moment > until or moment == FOREVER:
                break
            self.now = moment
            while heap and heap[0][0] <= moment:
                _, _, _, background, act, arguments = heapq.heappop(heap)
                self._background -= background
                act(*arguments)
                events += 1
            while position < number and at[position] <= moment:
                self._arrive(position)
                position += 1
                events += 1
            # Most ends of pods leave nothing to try.
            if timer <= moment or self.core.ready or self.core.waiting:
                self._decide()
            if advance is not None and events >= _TELL_EVERY:
                events = 0
                advance(position / number if number else 1.0, moment)
        self.meters.advance(self.now if until == FOREVER else until)
        return self.meters

    def arrive(self, template: int, name: str) -> PodInfo:
        """Have another pod arrive after the end and decide; the pod as it is then, on its node or waiting."""
        pod = self._made(template, name)
        self._create(pod, template, FOREVER)
        self._decide()
        return self._pods[pod.uid].pod

    def waiting(self) -> Iterable[PodInfo]:
        """Pods without a node."""
        return (each.pod for each in self._pods.values() if not each.pod.node_name)

    def placed(self) -> Iterable[PodInfo]:
        """Pods with a node."""
        return (each.pod for each in self._pods.values() if each.pod.node_name)

    # --- planning -----------------------------------------------------------------------------------------------------

    def plan(self, delay_s: float, act: Callable[..., None], *arguments: Any, background: bool = False) -> None:
        """Have something done later; a run without an end does not wait for what is in the background."""
        self._planned += 1
        self._background += background
        heapq.heappush(self._heap, (self.now + delay_s, _PLANNED, self._planned, background, act, arguments))

    def _begin(self) -> None:
        trace = self._trace
        for kind, document in trace.objects:
            self._put(kind, document)
        for node in trace.nodes:
            self.set_node(node)
        for each in trace.placed:
            pod = self._made(each.template, each.name, each.uid)
            self._pods[pod.uid] = _Running(pod, each.template, each.duration, 0.0)
            self._seen(pod.with_devices(each.devices), each.node, each.started)
        for number, line in enumerate(trace.changes):
            heapq.heappush(self._heap, (line.at, _CHANGE, number, False, self._change, (line,)))
        self._disturbances.begin()
        self._pools.begin()

    def _settled(self) -> bool:
        """Whether nothing but time would change from here on."""
        if self._options.until_s != FOREVER or len(self._heap) > self._background or self.core.waiting:
            return False
        return not any(map(self.core.queue.count, (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.ERROR_BACKOFF)))

    def _timer(self) -> float:
        """When the core has something to do without an event."""
        due = self.core.next_timer()
        return FOREVER if due is None else max(due, self.now, self._busy_until)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        core, now = self.core, self.now
        if now < self._busy_until:
            return
        while (effects := core.step(now)) is not None:
            self._act(effects)
            if self._models.attempt.parameters[0]:
                self._busy_until = now + self._models.attempt.draw(self.rng)
                self.plan(self._busy_until - now, _nothing)
                return
            # Another step at the same moment would find nothing.
            if not core.ready and not core.waiting:
                return

    def _act(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Bind():
                    self.meters.attempts += 1
                    delay = self._models.bind_latency.draw(self.rng)
                    if delay:
                        self.plan(delay, self._bound, effect.taken)
                    else:
                        self._bound(effect.taken)
                case AttemptFailed():
                    self.meters.attempts += 1
                    self.meters.failed_attempts += 1
                case PatchStatus():
                    self._patch(effect)
                case Evict():
                    self._evict(effect)
                case _:
                    pass

    def _handle(self, event: Any) -> None:
        self._act(self.core.handle(event, self.now))

    def _bound(self, taken: AssumedPod) -> None:
        pod = taken.pod
        running = self._pods.get(pod.uid)
        if running is None or taken.node_name not in self.node_documents:
            self._handle(BindingEnded(taken, _NODE_GONE))
            return
        self._handle(BindingEnded(taken, SUCCESS))
        self.meters.placed += 1
        self.meters.waits.append(self.now - running.arrived_at)
        self._seen(pod, taken.node_name)

    def _seen(self, pod: PodInfo, node_name: str, started: str = "") -> None:
        """The pod runs on its node, from now on or since it was started."""
        running = self._pods[pod.uid]
        started = started or times.format_time(self.now)
        placed = msgspec.structs.replace(pod, node_name=node_name, nominated_node="", start_time=started, kept=None)
        old, running.pod = running.pod, placed
        self._handle(PodChanged(old, placed))
        self.meters.place(node_name, self._amounts[running.template], self.now)
        duration = running.duration
        if duration == FOREVER and self._models.duration is not None:
            duration = self._models.duration.draw(self.rng)
        if duration != FOREVER:
            self.plan(duration, self._end, pod.uid, placed)

    def _patch(self, effect: PatchStatus) -> None:
        nominated = effect.patch.nominated
        running = self._pods.get(effect.pod.uid)
        if nominated is None or running is None or running.pod.node_name or running.pod.nominated_node == nominated:
            return
        old, running.pod = running.pod, msgspec.structs.replace(running.pod, nominated_node=nominated)
        self._handle(PodChanged(old, running.pod))

    # --- pods that come and go ----------------------------------------------------------------------------------------

    def _made(self, template: int, name: str, uid: str = "") -> PodInfo:
        like = self._like[template]
        return PodInfo(uid=uid or f"{like.namespace}/{name}", name=name, shape=like.shape, kept=like.kept)

    def _arrive(self, position: int) -> None:
        trace = self._trace
        name, template = trace.names[position], int(trace.template[position])
        pod = self._made(template, name, trace.uids[position] if trace.uids else "")
        self._create(pod, template, float(trace.duration[position]))

    def _create(self, pod: PodInfo, template: int, duration: float) -> None:
        self._pods[pod.uid] = _Running(pod, template, duration, self.now)
        self._handle(PodChanged(None, pod))
        self.meters.longest_queue = max(self.meters.longest_queue, len(self.core.queue))

    def _end(self, uid: str, placed: PodInfo) -> None:
        """A pod has run for its time, unless it was lost before."""
        running = self._pods.get(uid)
        if (
            running is not None
            and running.pod.node_name == placed.node_name
            and running.pod.start_time == placed.start_time
        ):
            self.meters.finished += 1
            self._remove(uid)

    def _remove(self, uid: str) -> None:
        running = self._pods.pop(uid, None)
        if running is None:
            return
        self._handle(PodChanged(running.pod, None))
        if running.pod.node_name:
            self.meters.remove(running.pod.node_name, self._amounts[running.template], self.now)

    def _evict(self, effect: Evict) -> None:
        evicted = [each for each in effect.victims if not self.core.revoke(each.uid, "preempted")]
        self._handle(EvictionsEnded(effect.preemptor, evicted))
        for victim in evicted:
            self.meters.preempted += 1
            self.lose(victim.uid)

    def lose(self, uid: str, *, at_once: bool = False) -> None:
        """A pod is evicted or its node is gone; its owner may create another."""
        running = self._pods.get(uid)
        if running is None:
            return
        grace = 0.0 if at_once else self._models.grace.draw(self.rng)
        if grace:
            old, running.pod = running.pod, self._terminating(running)
            self._handle(PodChanged(old, running.pod))
            self.plan(grace, self._remove, uid)
        else:
            self._remove(uid)
        if self._models.recreation is not None and self._has_owner(running.template):
            self.plan(grace + self._models.recreation.draw(self.rng), self._recreate, running)

    def _terminating(self, running: _Running) -> PodInfo:
        like = self._going.get(running.template)
        if like is None:
            document = self._trace.templates[running.template]
            metadata = {**document["metadata"], "deletionTimestamp": times.format_time(0)}
            like = self._going[running.template] = self._interner.pod({**document, "metadata": metadata})
        return msgspec.structs.replace(running.pod, shape=like.shape)

    def _has_owner(self, template: int) -> bool:
        if not self._models.controllers_only:
            return True
        return meta.controller_of(self._trace.templates[template]) is not None

    def _recreate(self, lost: _Running) -> None:
        self.meters.recreated += 1
        name = f"{lost.pod.name.partition('~')[0]}~{self._planned}"
        self._create(self._made(lost.template, name), lost.template, lost.duration)

    # --- nodes and other objects --------------------------------------------------------------------------------------

    def set_node(self, document: Document) -> None:
        """Add or change a node."""
        node = read_node(document)
        self.node_documents[node.metadata.name] = document
        self._handle(NodeChanged(node.metadata.name, node))
        info = self.core.cache.cluster.by_name[node.metadata.name]
        self.meters.add_node(node.metadata.name, info.allocatable, self.now)

    def remove_node(self, name: str) -> None:
        """A node is gone, with its pods."""
        if self.node_documents.pop(name, None) is None:
            return
        there = list(self.pods_on(name))
        self._handle(NodeChanged(name, None))
        for pod in there:
            self.meters.lost += 1
            self.lose(pod.uid, at_once=True)
        self.meters.remove_node(name, self.now)

    def pods_on(self, name: str) -> Sequence[PodInfo]:
        """The pods that run on a node; those whose binding is under way are not among them."""
        node = self.core.cache.cluster.by_name.get(name)
        return [] if node is None else [pod for pod in node.pods.values() if not self.core.cache.is_assumed(pod.uid)]

    def _put(self, kind: str, document: Document) -> None:
        metadata: Mapping[str, Any] = document.get("metadata") or {}
        key = kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        old = self._objects.get(key)
        self._objects[key] = document
        self._handle(ObjectChanged(kind, self._resources.get(kind), key[1], key[2], old, document))

    def _change(self, line: AnyLine) -> None:
        match line:
            case trace_lines.NodeSet():
                self.set_node(line.node)
            case trace_lines.NodeGone():
                self.remove_node(line.name)
            case trace_lines.PodGone():
                self._remove(line.uid)
            case trace_lines.ObjectSet():
                self._put(line.kind, line.document)
            case trace_lines.ObjectGone():
                old = self._objects.pop((line.kind, line.namespace, line.name), None)
                resource = self._resources.get(line.kind)
                self._handle(ObjectChanged(line.kind, resource, line.namespace, line.name, old, None))
            case _:
                pass


def _nothing() -> None:
    """The scheduler is free again."""
