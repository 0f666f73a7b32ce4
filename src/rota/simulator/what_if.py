"""A question about a cluster, and its answer: which pods would be placed, move, wait or be preempted. Pure.

The scheduler's own core decides, in a simulation without time: nothing ends, bindings and evictions take no time, and
controllers create pods again at once. The same simulation without the changes shows what they change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from rota.api.resources import CPU, MEMORY
from rota.columns.pods import PodInfo
from rota.scheduler.core.attempts import Attempt
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.simulator import cluster_changes
from rota.simulator.cluster_changes import ChangedCluster, Changes, Resident
from rota.simulator.engine import Engine, Options
from rota.simulator.gpu_demand import capacity, milli
from rota.simulator.models import NOTHING, Models
from rota.simulator.ties import TieRule
from rota.simulator.traces import Document, Trace

#: Bindings and evictions at once; pods with a controller come again at once.
_OPTIONS: Final = Options(models=Models(recreation=NOTHING, controllers_only=True), ties=TieRule.NAME)
#: What separates the name of a pod from the number that it got when it was created again.
_AGAIN: Final = "~"
MOST: Final = 100_000


class Cause(StrEnum):
    """Why a pod needs a node."""

    NEW = "new"
    PENDING = "pending"
    DRAINED = "drained"
    RESCHEDULED = "rescheduled"
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A cluster, what would be different, and the configuration that would decide."""

    cluster: Trace
    loaded: Loaded
    #: The configuration without the changes.
    baseline: Loaded
    changes: Changes = field(default_factory=Changes)
    #: A pod of which as many as possible are placed after everything else.
    counted: Document | None = None
    most: int = MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of a pod."""

    pod: str
    cause: Cause
    #: Its nodes before and after; "" if it has none.
    source: str = ""
    target: str = ""
    #: Why it waits, or is not created again.
    why: str = ""
    #: The pod that preempts it.
    preemptor: str = ""
    #: Whether this holds without the changes, too.
    unchanged: bool = False

    @property
    def waits(self) -> bool:
        """Whether it has no node."""
        return not self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many more pods of a shape find a node, without preemption."""

    number: int
    #: Whether there may be room for more, since the count ended at its limit.
    at_least: bool
    #: Why the next one waits.
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer; pods that stay where they are do not appear."""

    fates: Sequence[Fate]
    stays: Sequence[Resident]
    lost: Sequence[Resident]
    count: Count | None
    nodes: int
    #: Parts of cpu, memory and GPUs that pods request, before and after; without the count.
    allocated: Mapping[str, tuple[float, float]]
    notes: Sequence[str] = ()

    @property
    def fits(self) -> bool | None:
        """Whether every new pod finds a node; None if there are none."""
        new = [each for each in self.fates if each.cause is Cause.NEW]
        return not any(each.waits for each in new) if new else None

    def placed(self) -> list[Fate]:
        """Pods without a node that get one."""
        return [each for each in self.fates if each.target and not each.source]

    def moves(self) -> list[Fate]:
        """Pods that get another node; preempted ones are not among them."""
        return [each for each in self.fates if each.target and each.source and each.cause is not Cause.PREEMPTED]

    def waiting(self) -> list[Fate]:
        """Pods that wait for a node."""
        return [each for each in self.fates if each.waits and each.cause is not Cause.PREEMPTED]

    def preempted(self) -> list[Fate]:
        """Pods that are evicted for more important ones, and where they are afterwards."""
        return [each for each in self.fates if each.cause is Cause.PREEMPTED]

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "fits": self.fits,
            "placed": list(map(_document, self.placed())),
            "moves": list(map(_document, self.moves())),
            "waits": list(map(_document, self.waiting())),
            "preempted": list(map(_document, self.preempted())),
            "stays": [each._asdict() for each in self.stays],
            "lost": [each._asdict() for each in self.lost],
            "count": None if self.count is None else asdict(self.count),
            "nodes": self.nodes,
            "allocated": {name: {"before": old, "after": new} for name, (old, new) in self.allocated.items()},
            "notes": list(self.notes),
        }


def _document(fate: Fate) -> dict[str, Any]:
    return {
        "pod": fate.pod,
        "cause": fate.cause.value,
        "from": fate.source or None,
        "to": fate.target or None,
        "why": fate.why,
        "preemptor": fate.preemptor or None,
        "unchanged": fate.unchanged,
    }


class _Run:
    """One simulation to its end, with the reasons of its refusals."""

    def __init__(self, trace: Trace, loaded: Loaded) -> None:
        #: Uids of the pods that have a node at the beginning.
        self.residents: Final = {
            each.uid or cluster_changes.key_of(trace, each.template, each.name) for each in trace.placed
        }
        self.engine: Final = Engine(trace, loaded, seed=0, options=_OPTIONS)
        self._profiles: Final = loaded.configuration.profiles
        self._refusals: Final[dict[str, str]] = {}
        #: Preempted pods: the pod, its node, and the preemptor, in order.
        self.preempted: Final[dict[str, tuple[PodInfo, str]]] = {}
        self.engine.observe(self._observe)
        self.engine.run()

    def _observe(self, attempt: Attempt) -> None:
        refusal = attempt.refusal
        if refusal is None:
            return
        self._refusals[attempt.pod.uid] = f"{refusal.message} {refusal.hint}".strip()
        room = refusal.room
        if room is not None and room.nominated_node:
            for victim in room.victims:
                self.preempted.setdefault(victim.uid, (victim, attempt.pod.key))

    def why(self, pod: PodInfo) -> str:
        """Why a pod waits."""
        if pod.shape.scheduler_name not in self._profiles:
            return f'no profile of the configuration is for schedulerName "{pod.shape.scheduler_name}"'
        if pod.shape.scheduling_gates:
            return f"it has scheduling gates: {', '.join(pod.shape.scheduling_gates)}"
        return self._refusals.get(pod.uid, "it is in the queue")

    def pods(self) -> dict[str, PodInfo]:
        """All pods by uid."""
        return {pod.uid: pod for found in (self.engine.placed(), self.engine.waiting()) for pod in found}


def answer(question: Question) -> Answer:
    """Answer a question; the same question has the same answer."""
    present = cluster_changes.at_present(question.cluster)
    changed = cluster_changes.changed(present, question.changes)
    drained = frozenset(question.changes.drained)
    trace = changed.trace if question.counted is None else _with_template(changed.trace, question.counted)
    before, after = _Run(present, question.baseline), _Run(trace, question.loaded)
    fates = [*_fates(before, after, changed, drained), *_preempted(before, after, changed)]
    old, new = _allocated(before, frozenset()), _allocated(after, drained)
    return Answer(
        fates=sorted(fates, key=lambda each: _ORDER[each.cause]),
        stays=changed.stays,
        lost=changed.lost,
        nodes=len(trace.nodes) - len(drained),
        allocated={name: (old[name], new[name]) for name in old if old[name] or new[name]},
        count=None if question.counted is None else _count(after, len(trace.templates) - 1, question.most),
        notes=[*cluster_changes.budgets_exceeded(present, drained), *_notes(question.loaded)],
    )


_ORDER: Final = {cause: position for position, cause in enumerate(Cause)}


def _fates(before: _Run, after: _Run, changed: ChangedCluster, drained: frozenset[str]) -> Iterable[Fate]:
    """Pods that were asked about, that waited, or that lost their node by the changes."""
    usual = before.pods()
    pending = {pod.uid for pod in usual.values() if pod.uid not in before.residents}
    for uid, pod in after.pods().items():
        source = changed.origins.get(uid, "")
        if uid in changed.asked:
            cause = Cause.NEW
        elif source:
            cause = Cause.DRAINED if source in drained else Cause.RESCHEDULED
        elif uid in pending:
            cause = Cause.PENDING
        else:
            continue
        target = pod.node_name
        if pod.terminating or (source and source == target):
            continue
        yield Fate(
            pod=pod.key,
            cause=cause,
            source=source,
            target=target,
            why="" if target else after.why(pod),
            unchanged=uid in usual and usual[uid].node_name == target,
        )


def _preempted(before: _Run, after: _Run, changed: ChangedCluster) -> Iterable[Fate]:
    """Pods that are gone from their nodes for more important ones; a controller creates them again."""
    there = after.pods()
    again = {_first_key(pod): pod for pod in there.values() if _AGAIN in pod.name}
    for uid, (victim, preemptor) in after.preempted.items():
        if uid in there or _AGAIN in victim.name:
            continue
        then = again.get(victim.key)
        new = uid in changed.asked
        waits = cluster_changes.NO_CONTROLLER if then is None else "" if then.node_name else after.why(then)
        yield Fate(
            pod=victim.key,
            cause=Cause.NEW if new else Cause.PREEMPTED,
            source="" if new else changed.origins.get(uid) or victim.node_name,
            target="" if then is None else then.node_name,
            why=waits,
            preemptor=preemptor,
            unchanged=uid in before.preempted,
        )


def _first_key(pod: PodInfo) -> str:
    return pod.key.partition(_AGAIN)[0]


def _with_template(trace: Trace, document: Document) -> Trace:
    """The workload with one more template, of pods that do not preempt others."""
    alike = {**document, "spec": {**(document.get("spec") or {}), "preemptionPolicy": "Never"}}
    return replace(trace, templates=[*trace.templates, alike])


def _count(run: _Run, template: int, most: int) -> Count:
    for number in range(most):
        pod = run.engine.arrive(template, f"more{_AGAIN}{number}")
        if not pod.node_name:
            return Count(number=number, at_least=False, why=run.why(pod))
    return Count(number=most, at_least=True)


def _allocated(run: _Run, without: frozenset[str]) -> dict[str, float]:
    """The part of cpu, memory and GPUs that pods request, on all nodes but these."""
    by_name = run.engine.core.cache.cluster.by_name
    known = run.engine.node_documents.keys() - without
    pods = [pod.shape.requests for pod in run.engine.placed() if pod.node_name in known]
    nodes = [by_name[name].allocatable for name in known]
    totals = {
        name: (sum(each.get(name, 0) for each in pods), sum(each.get(name, 0) for each in nodes))
        for name in (CPU, MEMORY)
    }
    totals["gpu"] = sum(map(milli, pods)), sum(map(capacity, nodes))
    return {name: round(used / whole, 4) if whole else 0.0 for name, (used, whole) in totals.items()}


def _notes(loaded: Loaded) -> list[str]:
    if not loaded.configuration.extenders:
        return []
    return ["the extenders of the configuration are not asked"]
