"""Replays recorded decisions: by the recorded configuration, to check that they are reproducible, or by another one.

Every decision is made on the cluster, with the extender results and with the seed of the recording. Another
configuration shows what it would have decided in the same situation; the consequences need a simulation. Nodes that
only another configuration finds feasible, so that extenders were not asked about them, count as allowed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.cycle.scheduling_cycle import SchedulingCycle
from rota.scheduler.framework import binding_points
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.recording import entry_encoder, reconstruction
from rota.scheduler.recording.entries import Beginning, Decided, Outcome, PodGone, PodRestated
from rota.scheduler.recording.files import NotARecording, Reader
from rota.scheduler.recording.reconstruction import Rebuilt


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A decision, recorded and replayed."""

    at: float
    #: namespace/name.
    pod: str
    profile: str
    then: Outcome
    now: Outcome
    #: Names of the victims by uid.
    names: Mapping[str, str]

    @property
    def same(self) -> bool:
        """Whether both are the same decision."""
        return self.then == self.now


@dataclass(slots=True)
class _Reserved:
    framework: Framework
    state: CycleState
    pod: PodInfo
    node: str


class Replay:
    """Replays a recording."""

    def __init__(self, reader: Reader, registry: Registry, *, loaded: Loaded | None = None) -> None:
        """`registry` has the built-in plugins; `loaded` is a configuration to use instead of the recorded one."""
        self._reader: Final = reader
        self._registry: Final = registry
        self._other: Final = loaded
        #: The first entry, once reading has begun.
        self.beginning: Beginning | None = None
        #: Pods with reservations by plugins, until they are gone or seen.
        self._reserved: Final[dict[str, _Reserved]] = {}

    @property
    def cut_off(self) -> bool:
        """Whether the recording's end is missing."""
        return self._reader.cut_off

    def decisions(self) -> Iterator[Compared]:
        """Make every decision again, in order."""
        entries = self._reader.entries()
        beginning = next(entries)
        assert isinstance(beginning, Beginning), "the reader sees to that"
        self.beginning = beginning
        cluster = Rebuilt(beginning)
        cycles = self._cycles(beginning, cluster)
        for entry in entries:
            if isinstance(entry, Decided):
                yield self._again(entry, cluster, cycles)
                continue
            if isinstance(entry, PodRestated):
                self._reserved.pop(entry.pod.uid, None)
            elif isinstance(entry, PodGone) and (held := self._reserved.pop(entry.uid, None)) is not None:
                binding_points.unreserve(held.framework, held.state, held.pod, held.node)
            cluster.apply(entry)

    def _cycles(self, beginning: Beginning, rebuilt: Rebuilt) -> dict[str, SchedulingCycle]:
        loaded = self._other
        if loaded is None:
            try:
                loaded = third_party.load_settings(resolution.read(beginning.configuration), self._registry)
            except ConfigurationError as error:
                raise NotARecording(
                    f"{self._reader.path}: its configuration cannot be used here: {error}",
                    "install the plugins that it names or give them with --plugin, or give another --scheduler-config",
                ) from error
        return {
            name: SchedulingCycle(Framework(profile, loaded.registry), rebuilt.cluster)
            for name, profile in loaded.configuration.profiles.items()
        }

    def _cycle(self, cycles: Mapping[str, SchedulingCycle], profile: str) -> SchedulingCycle:
        if profile in cycles:
            return cycles[profile]
        if len(cycles) == 1:
            return next(iter(cycles.values()))
        raise UserError(
            f'no profile is for schedulerName "{profile}", which was recorded', f"known are {', '.join(cycles)}"
        )

    def _again(self, entry: Decided, rebuilt: Rebuilt, cycles: Mapping[str, SchedulingCycle]) -> Compared:
        cycle = self._cycle(cycles, entry.profile)
        pod, nominations = rebuilt.decided(entry)
        evaluation = cycle.evaluate(pod, nominations=nominations)
        advice = None
        if entry.advice is not None:
            advice = reconstruction.advice(entry.advice, frozenset(cycle.feasible_names(evaluation)))
        node = cycle.choose(evaluation, start=entry.start, avoiding=entry.avoiding, advice=advice)
        refusal = None
        if node is None:
            refusal = cycle.refuse(evaluation, start=entry.start, advice=advice, make_room=entry.make_room)
        now = entry_encoder.outcome(node, refusal)
        if entry.outcome.node:
            self._reserve(cycle, evaluation, pod, entry.outcome.node)
        return Compared(
            at=entry.at,
            pod=pod.key,
            profile=entry.profile,
            then=entry.outcome,
            now=now,
            names={uid: rebuilt.name_of(uid) for uid in {*entry.outcome.victims, *now.victims}},
        )

    def _reserve(self, cycle: SchedulingCycle, evaluation: Evaluation, pod: PodInfo, node: str) -> None:
        """Repeat the Reserve of the recorded decision, since it affects later decisions."""
        framework = cycle.framework
        there = evaluation.cluster.by_name.get(node)
        if there is None or not framework.at(ExtensionPoint.RESERVE) or not evaluation.feasible[there.row]:
            return
        state = evaluation.state.fork()
        if binding_points.reserve(framework, state, pod, node).ok:
            self._reserved[pod.uid] = _Reserved(framework, state, pod, node)
        else:
            binding_points.unreserve(framework, state, pod, node)
