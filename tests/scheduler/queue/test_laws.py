"""The queue against a plain model of it: whatever happens, a pod is never lost, never in two places, and wakes in time.

The model keeps a list of everything that has happened and asks all of it every time; it has no heaps, no cohorts and
no log to prune. After every step both must agree on where each pod is.
"""

import math
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.scheduler.queue.conftest import CLAIM_ADDED, NODE_ADDED, NODE_TAINTED, POD_DELETED, Waiting

from rota.scheduler.framework.events import ClusterEvent
from rota.scheduler.queue.entries import QueueState

NAMES = st.sampled_from([f"p{number}" for number in range(4)])
EVENTS = st.sampled_from([NODE_ADDED, NODE_TAINTED, POD_DELETED, CLAIM_ADDED])
REJECTORS = st.sets(st.sampled_from(["Picky", "Easy", "Deaf", "Eager"]), max_size=2)
PENDING = st.one_of(st.just(set[str]()), REJECTORS)
AWAY = {QueueState.IN_FLIGHT, QueueState.BINDING}


@dataclass
class Known:
    """What the model knows of a pod."""

    priority: int
    gated: bool
    label: str
    queued_at: float
    place: QueueState = QueueState.ACTIVE
    failures: int = 0
    faults: int = 0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    #: What has happened since it was taken out: an event with the pods that it helps, or "forced", or "relabelled".
    since: list[tuple[ClusterEvent | str, frozenset[str]]] = field(default_factory=list)

    def rests(self, now: float) -> bool:
        count = self.faults or self.failures
        if not count:
            return False
        return math.floor(self.queued_at + min(10.0, 2.0 ** (count - 1))) >= math.floor(now)


def hopeful(plugin: str, name: str, event: ClusterEvent | str, helped: frozenset[str]) -> bool:
    """What the plugins of the test say, in one place."""
    match plugin:
        case "Eager":
            return True
        case "Easy":
            return event in (POD_DELETED, CLAIM_ADDED)
        case "Picky":
            return event == "relabelled" or (event == NODE_ADDED and name in helped)
    return False


class AgainstModel(RuleBasedStateMachine):
    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.waiting = Waiting()
        self.model: dict[str, Known] = {}
        self.looked_at: float | None = None

    # --- the model --------------------------------------------------------------------------------------------------

    def enter(self, pod: Known, *, at_once: bool = False) -> None:
        if self.looked_at is None:
            self.looked_at = self.waiting.now
        if pod.gated:
            pod.place = QueueState.GATED
        elif at_once or not pod.rests(self.waiting.now):
            pod.place = QueueState.ACTIVE
        else:
            pod.place = QueueState.ERROR_BACKOFF if pod.faults else QueueState.BACKOFF

    def hear(self, name: str, pod: Known, event: ClusterEvent | str, helped: frozenset[str]) -> tuple[bool, bool]:
        """Whether an event helps a pod, and whether it spares it the rest."""
        if event == "forced":
            return True, False
        if pod.place is QueueState.GATED and event != CLAIM_ADDED:
            return False, False
        hoping = {plugin for plugin in pod.unschedulable_plugins if hopeful(plugin, name, event, helped)}
        return bool(hoping), bool(hoping & pod.pending)

    def end_rests(self) -> None:
        for pod in self.model.values():
            if pod.place in {QueueState.BACKOFF, QueueState.ERROR_BACKOFF} and not pod.rests(self.waiting.now):
                pod.place = QueueState.ACTIVE

    # --- what can happen --------------------------------------------------------------------------------------------

    @rule(target=pods, name=NAMES, priority=st.integers(0, 2), gated=st.booleans())
    def add(self, name: str, priority: int, gated: bool) -> str:
        self.change(name, priority, gated, self.model[name].label if name in self.model else "")
        return name

    @rule(name=pods, priority=st.integers(0, 2), gated=st.booleans(), label=st.sampled_from(["x", "y"]))
    def change(self, name: str, priority: int, gated: bool, label: str) -> None:
        fields = {"priority": priority, "gates": ["g"] if gated else [], "labels": {"l": label}}
        self.waiting.update(name, **fields)
        pod = self.model.get(name)
        if pod is None:
            pod = self.model[name] = Known(priority, gated, label, self.waiting.now)
            self.enter(pod, at_once=True)
            return
        relabelled, ungated = pod.label != label, pod.gated and not gated
        changed = relabelled or pod.gated != gated or pod.priority != priority
        pod.priority, pod.gated, pod.label = priority, gated, label
        if pod.place is QueueState.IN_FLIGHT and changed:
            pod.since.append(("relabelled" if relabelled else "reprioritised", frozenset()))
        elif pod.place is QueueState.GATED:
            if ungated:
                event = "relabelled" if relabelled else "ungated"
                self.enter(pod, at_once=any(hopeful(plugin, name, event, frozenset()) for plugin in pod.pending))
        elif pod.place is QueueState.UNSCHEDULABLE and changed:
            helps, spared = self.hear(name, pod, "relabelled" if relabelled else "reprioritised", frozenset())
            if helps:
                self.enter(pod, at_once=spared)

    @rule(name=consumes(pods))
    def delete(self, name: str) -> None:
        assert (self.waiting.delete(name) is not None) is (self.model.pop(name, None) is not None)

    @rule()
    def pop(self) -> None:
        self.end_rests()
        ready = {name: pod for name, pod in self.model.items() if pod.place is QueueState.ACTIVE}
        resting = {name: pod for name, pod in self.model.items() if pod.place is QueueState.BACKOFF}
        name = self.waiting.pop()
        if not name:
            assert not ready
            assert not resting
            return
        pod = self.model[name]
        if ready:
            assert name in ready
            assert all((-pod.priority, pod.queued_at) <= (-other.priority, other.queued_at) for other in ready.values())
        else:
            assert name in resting
        pod.place, pod.since, pod.unschedulable_plugins, pod.pending = (
            QueueState.IN_FLIGHT,
            [],
            frozenset(),
            frozenset(),
        )

    @rule(name=pods)
    def done(self, name: str) -> None:
        self.waiting.queue.done(f"uid-{name}")
        if name in self.model and self.model[name].place is QueueState.IN_FLIGHT:
            self.model[name].place = QueueState.BINDING

    @rule(name=pods, unschedulable_plugins=REJECTORS, pending=PENDING)
    def fail(self, name: str, unschedulable_plugins: set[str], pending: set[str]) -> None:
        back = self.waiting.queue.requeue(
            f"uid-{name}", now=self.waiting.now, unschedulable_plugins=unschedulable_plugins, pending=pending
        )
        pod = self.model.get(name)
        assert (back is not None) is (pod is not None and pod.place in AWAY)
        if pod is None or pod.place not in AWAY:
            return
        was_binding = pod.place is QueueState.BINDING
        pod.unschedulable_plugins, pod.pending = frozenset(unschedulable_plugins | pending), frozenset(pending)
        pod.queued_at = self.waiting.now
        if pod.unschedulable_plugins:
            pod.failures, pod.faults = pod.failures + 1, 0
        else:
            pod.faults += 1
        heard = [self.hear(name, pod, event, helped) for event, helped in pod.since]
        if was_binding or not pod.unschedulable_plugins:
            self.enter(pod)
        elif any(spared for _, spared in heard):
            self.enter(pod, at_once=True)
        elif any(helps for helps, _ in heard):
            self.enter(pod)
        else:
            pod.place = QueueState.UNSCHEDULABLE

    @rule(
        happenings=st.lists(st.tuples(EVENTS, st.frozensets(NAMES)), max_size=3),
        unschedulable_plugins=REJECTORS,
        pending=PENDING,
    )
    def attempt(
        self, happenings: list[tuple[ClusterEvent, frozenset[str]]], unschedulable_plugins: set[str], pending: set[str]
    ) -> None:
        self.pop()
        for event, helped in happenings:
            self.move(event, helped)
        for name in [name for name, pod in self.model.items() if pod.place is QueueState.IN_FLIGHT][-1:]:
            self.fail(name, unschedulable_plugins, pending)

    @rule(event=EVENTS, helped=st.frozensets(NAMES))
    def move(self, event: ClusterEvent, helped: frozenset[str]) -> None:
        self.waiting.move(event, *helped)
        for name, pod in self.model.items():
            if pod.place is QueueState.IN_FLIGHT:
                pod.since.append((event, helped))
            elif pod.place in {QueueState.UNSCHEDULABLE, QueueState.GATED}:
                helps, spared = self.hear(name, pod, event, helped)
                if helps:
                    self.enter(pod, at_once=spared)

    @rule(name=pods)
    def activate(self, name: str) -> None:
        self.waiting.activate(name)
        pod = self.model.get(name)
        if pod is None:
            return
        if pod.place is QueueState.IN_FLIGHT:
            pod.since.append(("forced", frozenset()))
        elif pod.place not in AWAY | {QueueState.ACTIVE}:
            self.enter(pod, at_once=True)

    @rule(seconds=st.one_of(st.floats(0, 3), st.floats(0, 12), st.just(330.0)))
    def wait(self, seconds: float) -> None:
        self.waiting.after(seconds)
        self.end_rests()
        now = self.waiting.now
        if self.looked_at is not None and now >= self.looked_at + 30:
            self.looked_at = now
            for pod in self.model.values():
                if pod.place in {QueueState.UNSCHEDULABLE, QueueState.GATED} and now - pod.queued_at > 300:
                    self.enter(pod)

    def teardown(self) -> None:
        """In the end everybody gets a turn, in time."""
        began = self.waiting.now
        expected = {name for name, pod in self.model.items() if pod.place not in AWAY and not pod.gated}
        got: set[str] = set()
        while True:
            while name := self.waiting.pop():
                got.add(name)
                pod = self.model[name]
                pod.place, pod.since, pod.unschedulable_plugins, pod.pending = (
                    QueueState.IN_FLIGHT,
                    [],
                    frozenset(),
                    frozenset(),
                )
            if expected <= got:
                break
            wakeup = self.waiting.queue.next_wakeup()
            assert wakeup is not None, "somebody waits and nothing will ever wake them"
            self.wait(max(wakeup - self.waiting.now, 0.0))
            assert self.waiting.now - began <= 360

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def both_agree_on_where_everybody_is(self) -> None:
        queue = self.waiting.queue
        assert {entry.pod.name: entry.place for entry in queue.entries()} == {
            name: pod.place for name, pod in self.model.items()
        }
        for place in QueueState:
            assert queue.count(place) == sum(pod.place is place for pod in self.model.values())
        away = [entry for entry in queue.entries() if entry.place not in AWAY]
        turned_away = sum(len(self.model[entry.pod.name].unschedulable_plugins) for entry in queue.entries())
        assert sum(queue.turned_away.values()) == turned_away
        assert queue.ready is any(entry.place in {QueueState.ACTIVE, QueueState.BACKOFF} for entry in away)


AgainstModel.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
test_the_queue_and_its_model_agree = pytest.mark.slow(AgainstModel.TestCase)
