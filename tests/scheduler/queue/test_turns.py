"""Whose turn it is: order, rests after failures, and time that wakes what nothing else wakes."""

import pytest
from tests.scheduler.queue.conftest import NODE_ADDED, POD_DELETED, Waiting, framework

from rota.scheduler.queue import queue_dumper
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.queue.pod_backoff import PodBackoff
from rota.scheduler.queue.scheduling_queue import SchedulingQueue, Timings


def test_higher_priorities_go_first_and_equals_in_order_of_arrival() -> None:
    waiting = Waiting()
    waiting.add("first", "second")
    waiting.add("urgent", priority=10)
    waiting.add("third")
    assert waiting.all_popped() == ["urgent", "first", "second", "third"]


def test_a_pod_that_failed_goes_behind_others_of_its_priority() -> None:
    waiting = Waiting()
    waiting.add("old", "other")
    assert waiting.pop() == "old"
    waiting.now += 0.5
    waiting.fail("old", "Easy")
    waiting.move(POD_DELETED)
    waiting.after(3)
    assert waiting.all_popped() == ["other", "old"]


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (2000, 10)])
def test_rests_double_from_one_second_to_ten(failures: int, seconds: float) -> None:
    assert PodBackoff().duration(failures) == seconds


def test_a_longest_rest_of_zero_means_none() -> None:
    waiting = Waiting(timings=Timings(rests=PodBackoff(longest_s=0)))
    waiting.add("a")
    waiting.pop()
    assert waiting.fail("a") is QueueState.ACTIVE


def test_a_rest_ends_when_the_second_is_over_in_which_it_would_end() -> None:
    waiting = Waiting()
    waiting.now = 1000.4
    assert waiting.refuse("a") is QueueState.ERROR_BACKOFF
    assert waiting.queue.next_wakeup() == 1002
    waiting.now = 1001.99
    assert waiting.queue.flush(waiting.now) == 0
    assert waiting.after(0.02) == 1
    assert waiting.place("a") is QueueState.ACTIVE


def test_rests_that_end_within_one_second_end_together_and_in_the_order_of_the_queue() -> None:
    waiting = Waiting()
    waiting.now = 1000.1
    waiting.refuse("early", "Easy")
    waiting.now = 1000.8
    waiting.refuse("late-but-urgent", "Easy", priority=5)
    waiting.move(POD_DELETED)
    assert waiting.all_popped() == ["late-but-urgent", "early"]


def test_where_nothing_is_ready_a_resting_pod_is_tried_early() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    waiting.move(POD_DELETED)
    assert waiting.place("a") is QueueState.BACKOFF
    assert waiting.queue.ready
    assert waiting.pop() == "a"


def test_a_resting_pod_is_not_tried_before_one_that_is_ready() -> None:
    waiting = Waiting()
    waiting.refuse("resting", "Easy", priority=100)
    waiting.move(POD_DELETED)
    waiting.add("ready")
    assert waiting.all_popped() == ["ready", "resting"]


def test_a_pod_that_rests_after_a_fault_is_never_tried_early() -> None:
    waiting = Waiting()
    waiting.refuse("a")
    assert not waiting.queue.ready
    assert waiting.pop() == ""
    waiting.after(2)
    assert waiting.pop() == "a"


def test_faults_in_a_row_lengthen_the_rest_and_a_refusal_begins_anew() -> None:
    waiting = Waiting()
    waiting.add("a")
    for rest in (1, 2, 4):
        assert waiting.pop() == "a"
        waiting.fail("a")
        assert waiting.queue.next_wakeup() == waiting.now + rest + 1
        waiting.after(rest + 1)
    assert waiting.pop() == "a"
    waiting.fail("a", "Easy")
    assert (waiting.get("a").faults, waiting.get("a").failures) == (0, 1)


def test_popping_ends_rests_that_are_over() -> None:
    waiting = Waiting()
    waiting.refuse("urgent", "Easy", priority=9)
    waiting.move(POD_DELETED)
    waiting.add("plain")
    waiting.now += 2
    assert waiting.pop() == "urgent"


def test_a_pod_that_nothing_wakes_is_tried_again_after_five_minutes() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Deaf")
    waiting.move(NODE_ADDED, "a")
    waiting.move(POD_DELETED)
    for _ in range(10):
        assert waiting.after(30) == 0
    assert waiting.after(30) == 1
    assert waiting.place("a") is QueueState.ACTIVE
    assert waiting.get("a").flushed


def test_the_longest_wait_can_be_set() -> None:
    waiting = Waiting(timings=Timings(longest_wait_s=60))
    waiting.refuse("a", "Deaf")
    assert waiting.after(90) == 1


def test_the_next_wake_up_is_never_past_a_waiting_pod_s_time() -> None:
    waiting = Waiting()
    assert waiting.queue.next_wakeup() is None
    waiting.refuse("a", "Deaf")
    began = waiting.now
    while waiting.place("a") is QueueState.UNSCHEDULABLE:
        wakeup = waiting.queue.next_wakeup()
        assert wakeup is not None
        waiting.after(wakeup - waiting.now)
    assert 300 < waiting.now - began <= 330 + 30


def test_entries_have_attempts_and_times() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.now += 2
    waiting.pop()
    waiting.now += 1
    waiting.fail("a", "Easy")
    entry = waiting.get("a")
    assert (entry.first_queued_at, entry.first_tried_at, entry.queued_at) == (1000, 1002, 1003)
    assert entry.attempts == 1
    assert entry.unschedulable_plugins == {"Easy"}
    waiting.activate("a")
    waiting.pop()
    assert (entry.attempts, entry.first_tried_at, entry.unschedulable_plugins) == (2, 1002, frozenset())


def test_an_update_of_the_priority_changes_the_turn() -> None:
    waiting = Waiting()
    waiting.add("a", "b")
    waiting.update("b", priority=3)
    assert waiting.all_popped() == ["b", "a"]


def test_an_update_that_changes_nothing_keeps_the_turn() -> None:
    waiting = Waiting()
    waiting.add("a", "b")
    waiting.now += 5
    waiting.update("a", labels={"x": "y"})
    assert waiting.all_popped() == ["a", "b"]


def test_a_pod_that_cannot_be_sorted_is_held_back_and_others_go_on() -> None:
    waiting = Waiting()
    waiting.add("odd", labels={"unsortable": ""})
    waiting.add("plain")
    assert waiting.place("odd") is QueueState.GATED
    assert (waiting.get("odd").gate, waiting.get("odd").held.reasons) == (
        "Sorter",
        ("ValueError: cannot be compared",),
    )
    assert waiting.all_popped() == ["plain"]
    waiting.update("odd")
    assert waiting.pop() == "odd"


def test_a_ready_pod_that_can_no_longer_be_sorted_is_held_back() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.update("a", labels={"unsortable": ""})
    assert waiting.place("a") is QueueState.GATED
    assert waiting.pop() == ""


def test_pods_of_other_schedulers_are_ignored() -> None:
    waiting = Waiting(profiles=("mine",))
    waiting.add("a")
    assert len(waiting.queue) == 0
    waiting.add("b", schedulerName="mine")
    assert waiting.pop() == "b"


def test_profiles_share_one_order() -> None:
    waiting = Waiting(profiles=("one", "two"))
    waiting.add("a", schedulerName="one")
    waiting.add("b", schedulerName="two", priority=1)
    waiting.add("c", schedulerName="one", priority=2)
    assert waiting.all_popped() == ["c", "b", "a"]


def test_a_dump_tells_where_every_pod_is_and_why() -> None:
    waiting = Waiting()
    waiting.refuse("refused", "Picky", "Easy")
    waiting.refuse("faulty", nominated="n1")
    waiting.add("gated", gates=["g"])
    waiting.add("second")
    waiting.add("first", priority=1)
    waiting.now += 0.5
    dumped = queue_dumper.dump(waiting.queue, waiting.now)
    places = {place: [entry["pod"] for entry in entries] for place, entries in dumped["pods"].items()}
    assert {place: pods for place, pods in places.items() if pods} == {
        "active": ["default/first", "default/second"],
        "errorBackoff": ["default/faulty"],
        "unschedulable": ["default/refused"],
        "gated": ["default/gated"],
    }
    (refused,) = dumped["pods"]["unschedulable"]
    assert (refused["turnedAwayBy"], refused["attempts"], refused["hereFor"]) == (["Easy", "Picky"], 1, 0.5)
    (faulty,) = dumped["pods"]["errorBackoff"]
    assert (faulty["restsFor"], faulty["nominatedTo"]) == (1.5, "n1")
    (gated,) = dumped["pods"]["gated"]
    assert (gated["heldBackBy"], gated["because"]) == ("Gate", ["gated"])
    assert dumped["nominations"] == {"n1": ["default/faulty"]}


def test_counters_have_the_state_and_the_event() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy", "Deaf")
    assert dict(waiting.queue.turned_away) == {
        ("Easy", "default-scheduler"): 1,
        ("Deaf", "default-scheduler"): 1,
    }
    waiting.move(POD_DELETED)
    waiting.after(2)
    assert waiting.queue.incoming == {
        (QueueState.ACTIVE, "UnscheduledPodAdd"): 1,
        (QueueState.UNSCHEDULABLE, "ScheduleAttemptFailure"): 1,
        (QueueState.BACKOFF, "AssignedPodDelete"): 1,
        (QueueState.ACTIVE, "BackoffComplete"): 1,
    }
    waiting.pop()
    assert sum(waiting.queue.turned_away.values()) == 0


def test_a_queue_with_other_plugins_goes_on_where_the_former_stopped() -> None:
    waiting = Waiting(profiles=("default-scheduler", "old"))
    waiting.refuse("refused", "Deaf", nominated="n1")
    waiting.add("abandoned", schedulerName="old")
    waiting.add("tried", "bound", priority=5)
    assert [waiting.pop(), waiting.pop()] == ["tried", "bound"]
    waiting.queue.done("uid-bound")
    waiting.add("gated", gates=["g"])
    fresh = SchedulingQueue({"default-scheduler": framework()})
    fresh.take_over(waiting.queue, waiting.now)
    waiting.queue = fresh
    assert {name: waiting.place(name) for name in ("refused", "abandoned", "tried", "bound", "gated")} == {
        "refused": QueueState.ACTIVE,
        "abandoned": None,
        "tried": QueueState.IN_FLIGHT,
        "bound": QueueState.BINDING,
        "gated": QueueState.GATED,
    }
    assert waiting.get("refused").attempts == 1
    assert waiting.queue.nominated_node("uid-refused") == "n1"
    waiting.move(POD_DELETED)
    assert waiting.fail("tried", "Easy") is QueueState.BACKOFF
    assert waiting.fail("bound") is QueueState.ERROR_BACKOFF
    assert waiting.queue.incoming[QueueState.UNSCHEDULABLE, "ScheduleAttemptFailure"] == 1
