"""The core of the scheduler by itself: events in, effects out, without an event loop, a clock or a client."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import errors
from rota.columns.arrays import BoolArray, CodeArray, Rows
from rota.columns.cluster import Cluster
from rota.columns.node_columns import NodeColumn
from rota.columns.pod_interner import read_node
from rota.columns.pods import PodInfo
from rota.scheduler.core import configured, scheduler_core
from rota.scheduler.core.effects import (
    AttemptFailed,
    Bind,
    Bound,
    Effect,
    Evict,
    LostRace,
    PatchStatus,
    PermitEnded,
    RecordEvent,
    Released,
)
from rota.scheduler.core.events import BindingEnded, EvictionsEnded, NodeChanged, PodChanged
from rota.scheduler.core.pending_evictions import PendingEvictions
from rota.scheduler.framework.plugin_interfaces import PermitResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status, unschedulable
from rota.scheduler.queue.entries import QueueState
from rota.testing import schedulers
from rota.testing.clusters import LAW, make_node, make_pod

E = TypeVar("E")


class Driver:
    """Carries effects out as a simulator does: by values, at the times that a test says."""

    def __init__(self, config: str = "", *plugins: type) -> None:
        loaded = schedulers.configured(config, *plugins)
        self.core = configured.make_core(loaded.configuration, loaded.registry)
        self.now = 0.0
        self.pods: dict[str, PodInfo] = {}
        self.effects: list[Effect] = []

    def node(self, name: str, *, cpu: str = "4") -> None:
        self.effects += self.core.handle(NodeChanged(name, read_node(make_node(name, cpu=cpu))), self.now)

    def pod(self, name: str, **about: Any) -> PodInfo:
        pod = self.core.cache.interner.pod(make_pod(name, **about), keep=True)
        self.effects += self.core.handle(PodChanged(self.pods.get(pod.uid), pod), self.now)
        self.pods[pod.uid] = pod
        return pod

    def lose(self, name: str) -> None:
        pod = self.pods.pop(f"uid-{name}")
        self.effects += self.core.handle(PodChanged(pod, None), self.now)

    def run(self) -> Sequence[Effect]:
        """Step until nothing is left to do now; returns what happened since the last call."""
        while (effects := self.core.step(self.now)) is not None:
            self.effects += effects
        effects, self.effects = self.effects, []
        return effects

    def end(self, bind: Bind, status: Status = SUCCESS) -> None:
        self.effects += self.core.handle(BindingEnded(bind.taken, status), self.now)


def only(effects: Sequence[Effect], kind: type[E]) -> E:
    (found,) = (each for each in effects if isinstance(each, kind))
    return found


def conflict() -> Status:
    cause = errors.Cause(type="InsufficientResource", message="too late", field="cpu")
    error = errors.Conflict("too late", details=errors.Details(causes=(cause,)))
    return Status(Code.ERROR, ("too late",), error=error)


def test_a_pod_is_bound_and_then_counts_where_it_is() -> None:
    driver = Driver()
    driver.node("n1", cpu="1")
    driver.pod("web", cpu="700m")
    bind = only(driver.run(), Bind)
    assert (bind.taken.pod.name, bind.taken.node_name) == ("web", "n1")
    driver.now = 2.0
    driver.end(bind)
    effects = driver.run()
    assert only(effects, Bound)[1:] == ("n1", 1, 0.0, 0.0)
    assert only(effects, RecordEvent).message == "Successfully assigned default/web to n1"
    driver.pod("web", cpu="700m", on="n1")
    assert only(driver.run(), Released) == Released("uid-web", "n1")
    assert len(driver.core.queue) == 0
    driver.pod("other", cpu="700m")
    assert "Insufficient cpu" in only(driver.run(), AttemptFailed).refusal.message


def test_pods_that_lost_races_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_core, "MOST_UNBOUND", 3)
    driver = Driver()
    driver.node("n1")
    driver.node("n2")
    for number in range(3):
        driver.pod(f"web-{number}")
    binds = [effect for effect in driver.run() if isinstance(effect, Bind)]
    assert driver.core.saturated
    for bind in binds:
        driver.end(bind, conflict())
    again = [effect.taken.pod.name for effect in driver.run() if isinstance(effect, Bind)]
    assert again == [bind.taken.pod.name for bind in binds]


def test_a_pod_that_lost_a_race_is_tried_on_the_next_best_node_and_then_waits() -> None:
    driver = Driver()
    driver.node("n1")
    driver.node("n2")
    driver.pod("web")
    first = only(driver.run(), Bind)
    driver.end(first, conflict())
    effects = driver.run()
    assert only(effects, LostRace).node_name == first.taken.node_name
    second = only(effects, Bind)
    assert {first.taken.node_name, second.taken.node_name} == {"n1", "n2"}
    driver.end(second, conflict())
    assert only(driver.run(), AttemptFailed).refusal.message.startswith("0/2 nodes are available")
    assert not driver.core.cache.assumed


def test_backoff_and_the_unschedulable_flush_are_timers_of_the_core() -> None:
    driver = Driver()
    driver.node("n1", cpu="1")
    driver.pod("first", cpu="1", on="n1")
    driver.pod("web", cpu="1")
    assert only(driver.run(), AttemptFailed)
    assert driver.core.queue.count(QueueState.UNSCHEDULABLE) == 1
    assert driver.core.step(100.0) is None
    tried_at: list[float] = []
    while len(tried_at) < 2:
        timer = driver.core.next_timer()
        assert timer is not None
        assert timer > driver.now
        driver.now = timer
        if driver.run():
            tried_at.append(driver.now)
    assert 300 < tried_at[0] < 335
    assert tried_at[1] > tried_at[0]


def test_a_failed_binding_is_tried_again_after_its_backoff_without_an_event() -> None:
    driver = Driver()
    driver.node("n1")
    driver.pod("web")
    driver.end(only(driver.run(), Bind), Status(Code.ERROR, ("no idea",)))
    assert only(driver.run(), PatchStatus).patch.condition == ("SchedulerError", "no idea")
    assert driver.core.step(driver.now) is None
    timer = driver.core.next_timer()
    assert timer is not None
    driver.now = timer
    assert only(driver.run(), Bind)


def test_a_preemptor_waits_for_its_evictions_and_takes_the_room() -> None:
    driver = Driver()
    driver.node("n1", cpu="1")
    driver.pod("low", cpu="1", on="n1", priority=1)
    driver.pod("high", cpu="1", priority=10)
    effects = driver.run()
    evict = only(effects, Evict)
    assert (evict.node_name, [victim.name for victim in evict.victims]) == ("n1", ["low"])
    assert only(effects, PatchStatus).patch.nominated == "n1"
    driver.core.queue.activate(["uid-high"], now=driver.now)
    assert not [each for each in driver.run() if isinstance(each, Evict)]
    driver.effects += driver.core.handle(EvictionsEnded(evict.preemptor, evict.victims), driver.now)
    driver.core.queue.activate(["uid-high"], now=driver.now)
    assert not [each for each in driver.run() if isinstance(each, Evict)]
    driver.lose("low")
    driver.now = driver.core.next_timer() or 0.0
    assert only(driver.run(), Bind).taken.pod.name == "high"


def test_failed_evictions_are_planned_again() -> None:
    driver = Driver()
    driver.node("n1", cpu="1")
    driver.pod("low", cpu="1", on="n1", priority=1)
    driver.pod("high", cpu="1", priority=10)
    evict = only(driver.run(), Evict)
    driver.effects += driver.core.handle(EvictionsEnded(evict.preemptor, (), failed=True), driver.now)
    assert only(driver.run(), Evict).victims == evict.victims


def test_evictions_that_end_after_their_preemptor_is_gone_leave_nothing_behind() -> None:
    driver = Driver()
    driver.node("n1", cpu="1")
    low = driver.pod("low", cpu="1", on="n1", priority=1)
    pending = PendingEvictions(driver.core.cache.cluster)
    pending.start("uid-high")
    pending.forget("uid-high")
    assert not pending.awaited("uid-high", 0.0)
    pending.end("uid-high", [low], 0.0, failed=False)
    assert not pending.awaited("uid-high", 0.0)


class Pairing:
    """Holds each pod until the next one comes."""

    name: ClassVar[str] = "Pairing"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        held = list(self._handle.waiting_pods)
        for each in held:
            each.allow(self.name)
        return PermitResult() if held else PermitResult(Status(Code.WAIT), timeout_s=30.0)


PAIRING = "profiles: [{plugins: {multiPoint: {enabled: [{name: Pairing}]}}}]"


def test_a_pod_that_permit_holds_is_bound_once_it_is_allowed() -> None:
    driver = Driver(PAIRING, Pairing)
    driver.node("n1")
    driver.pod("one")
    effects = driver.run()
    assert only(effects, PatchStatus).patch.nominated == "n1"
    assert not [each for each in effects if isinstance(each, Bind)]
    driver.now = 3.0
    driver.pod("two")
    effects = driver.run()
    assert {each.taken.pod.name for each in effects if isinstance(each, Bind)} == {"one", "two"}
    assert only(effects, PermitEnded).waited_s == 3.0


def test_pods_that_permit_holds_do_not_keep_others_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_core, "MOST_UNBOUND", 1)
    driver = Driver(PAIRING, Pairing)
    driver.node("n1")
    driver.pod("one")
    driver.pod("two")
    bound = {each.taken.pod.name for each in driver.run() if isinstance(each, Bind)}
    assert bound == {"one", "two"}


def test_a_pod_that_permit_holds_for_too_long_gives_its_place_back() -> None:
    driver = Driver(PAIRING, Pairing)
    driver.node("n1")
    driver.pod("one")
    driver.run()
    assert driver.core.next_timer() == 30.0
    effects = driver.core.step(30.0)
    assert effects is not None
    assert "timeout" in only(effects, AttemptFailed).refusal.message
    assert not driver.core.cache.assumed
    assert not len(driver.core.waiting)


def test_what_is_not_bound_yet_returns_to_the_queue_when_the_core_stops() -> None:
    driver = Driver(PAIRING, Pairing)
    driver.node("n1")
    driver.pod("held")
    driver.run()
    driver.core.stop(driver.now)
    assert not driver.core.cache.assumed
    assert "uid-held" in driver.core.queue
    assert driver.core.queue.count(QueueState.IN_FLIGHT) == 0


class Licences:
    """Counts licences: a node has as many as its label says, and a pod takes as many as its label says."""

    name: ClassVar[str] = "Licences"
    Args = NoArgs
    FREE: ClassVar[NodeColumn] = NodeColumn(
        name="free licences",
        of_node=lambda node: int(node.labels.get("licences", "0")),
        of_pod=lambda pod: -int(pod.labels.get("licences", "0")),
    )

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        lacking: BoolArray = cluster.column(self.FREE)[rows] < int(pod.labels.get("licences", "0"))
        return lacking.astype(np.int64)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unschedulable("no licence left")


LICENCES = "profiles: [{plugins: {multiPoint: {enabled: [{name: Licences}]}}}]"


def test_a_plugin_decides_by_a_column_of_its_own_through_binding_failure_preemption_and_deletion() -> None:
    driver = Driver(LICENCES, Licences)
    node = read_node(make_node("n1", labels={"licences": "2"}))
    driver.effects += driver.core.handle(NodeChanged("n1", node), driver.now)
    driver.pod("two", labels={"licences": "2"}, priority=1)
    first = only(driver.run(), Bind)
    driver.pod("one", labels={"licences": "1"})
    assert "no licence left" in only(driver.run(), AttemptFailed).refusal.message
    driver.end(first, Status(Code.ERROR, ("no",)))
    assert only(driver.run(), Bind).taken.pod.name == "one"
    driver.pod("one", labels={"licences": "1"}, on="n1")
    driver.pod("high", labels={"licences": "2"}, priority=9)
    assert [victim.name for victim in only(driver.run(), Evict).victims] == ["one"]
    driver.lose("one")
    driver.now = driver.core.next_timer() or 0.0
    assert only(driver.run(), Bind).taken.pod.name == "high"


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2)),
        st.tuples(st.just("pod"), st.integers(0, 5)),
        st.tuples(st.just("lose"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["bound", "lost", "failed"]), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(1, 40)),
    ),
    max_size=30,
)


class Story:
    """Plays steps, and looks after each that no pod is lost and no node is overfilled."""

    def __init__(self) -> None:
        self.driver = Driver()
        #: What the core did, one line per effect.
        self.told: list[str] = []
        self.binds: dict[str, Bind] = {}

    def play(self, what: str, number: int) -> None:
        driver, uid = self.driver, f"uid-p{number}"
        if what == "node":
            driver.node(f"n{number}", cpu="2")
        elif what == "pod" and uid not in driver.pods and uid not in self.binds:
            # A new pod has a uid of its own: none returns while the binding of a deleted pod is under way.
            driver.pod(f"p{number}", cpu="900m", priority=number % 3)
        elif what == "lose" and uid in driver.pods:
            driver.lose(f"p{number}")
        elif what == "pass":
            driver.now += number
        elif uid in self.binds:
            self._end(what, self.binds.pop(uid))
        self._act()
        self._act()
        self._check()

    def _end(self, what: str, bind: Bind) -> None:
        driver, uid = self.driver, bind.taken.pod.uid
        driver.end(bind, {"bound": SUCCESS, "lost": conflict()}.get(what, Status(Code.ERROR, ("no",))))
        if what == "bound" and uid in driver.pods:
            old = driver.pods[uid]
            driver.pod(old.name, cpu="900m", priority=old.priority, on=bind.taken.node_name)

    def _act(self) -> None:
        driver = self.driver
        for effect in driver.run():
            self.told.append(f"{driver.now} {type(effect).__name__} {_about(effect)}")
            if isinstance(effect, Bind):
                assert effect.taken.pod.uid not in self.binds
                self.binds[effect.taken.pod.uid] = effect
            elif isinstance(effect, Evict):
                for victim in effect.victims:
                    if victim.uid in driver.pods:
                        driver.lose(victim.name)
                driver.effects += driver.core.handle(EvictionsEnded(effect.preemptor, effect.victims), driver.now)

    def _check(self) -> None:
        core = self.driver.core
        for pod in self.driver.pods.values():
            assert pod.uid in core.queue or pod.node_name
        assert set(core.cache.assumed) <= set(self.binds)
        for node in core.cache.cluster.node_infos():
            assert node.requested.get("cpu", 0) <= 2000


def _about(effect: Effect) -> str:
    return " ".join(str(part) for part in effect if isinstance(part, str | int | float))


@LAW
@given(_STEPS)
def test_no_pod_is_lost_no_node_overfilled_and_the_same_events_give_the_same_effects(
    steps: list[tuple[str, int]],
) -> None:
    first, second = Story(), Story()
    for what, number in steps:
        first.play(what, number)
    for what, number in steps:
        second.play(what, number)
    assert first.told == second.told
