"""What waking costs: an event asks about kinds of pods, not about pods, and never where nobody listens for it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from tests.scheduler.queue.conftest import NODE_ADDED, POD_DELETED, Sorter

from rota.bench import queue as bench
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Hint, Subscription
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Enabled, Handle, NoArgs, ProfileSpec, Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Status
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.testing.clusters import make_pod


class Counting:
    """Hears of nodes, asked once a shape, and of deleted pods, asked once a pod; never hopes."""

    name: ClassVar[str] = "Counting"
    Args = NoArgs
    asked: ClassVar[list[str]] = []

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self.asked.clear()

    def filter(self, *_: object) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[Subscription]:
        return (Subscription(NODE_ADDED, self._skip, by_shape=True), Subscription(POD_DELETED, self._skip))

    def _skip(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.asked.append(pod.name)
        return Hint.QUEUE if new == "hope" else Hint.SKIP


def queue_of(count: int, shapes: int) -> SchedulingQueue:
    points = {
        ExtensionPoint.QUEUE_SORT: (Enabled("Sorter"),),
        ExtensionPoint.FILTER: (Enabled("Counting"),),
    }
    queue = SchedulingQueue({"default-scheduler": Framework(ProfileSpec(points=points), Registry([Sorter, Counting]))})
    interner = PodInterner()
    for number in range(count):
        queue.add(interner.pod(make_pod(f"p{number}", labels={"app": str(number % shapes)})), 0.0)
    while queued := queue.pop(0.0):
        queue.requeue(queued.pod.uid, now=0.0, unschedulable_plugins={"Counting"})
    return queue


def test_pods_that_look_alike_are_asked_about_as_one() -> None:
    queue = queue_of(300, shapes=3)
    assert queue.move(NODE_ADDED, None, "nothing", now=1.0) == 0
    assert len(Counting.asked) == 3


def test_a_hint_that_may_look_at_the_pod_itself_is_asked_for_each() -> None:
    queue = queue_of(30, shapes=3)
    queue.move(POD_DELETED, None, "nothing", now=1.0)
    assert len(Counting.asked) == 30


def test_one_answer_wakes_all_pods_that_look_alike() -> None:
    queue = queue_of(300, shapes=3)
    assert queue.move(NODE_ADDED, None, "hope", now=100.0) == 300
    assert queue.count(QueueState.ACTIVE) == 300
    assert len(Counting.asked) == 3
    assert queue.move(NODE_ADDED, None, "hope", now=100.0) == 0
    assert len(Counting.asked) == 3


def test_pods_that_have_left_are_not_asked_about() -> None:
    queue = queue_of(30, shapes=3)
    for number in range(0, 30, 3):
        queue.delete(f"uid-p{number}")
    queue.move(NODE_ADDED, None, "nothing", now=1.0)
    assert len(Counting.asked) == 2
    for number in range(30):
        queue.delete(f"uid-p{number}")
    Counting.asked.clear()
    queue.move(NODE_ADDED, None, "nothing", now=1.0)
    assert (Counting.asked, len(queue)) == ([], 0)


@pytest.mark.slow
def test_the_benchmark_measures_every_step_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PODS", 200)
    results = bench.measure(quick=True)
    assert len(results) == 6
    assert all(result.value > 0 and result.ratio for result in results)
