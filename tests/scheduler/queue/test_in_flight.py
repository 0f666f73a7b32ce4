"""What happens to a pod while it is being tried, and after: nothing is lost on it; it comes back only if it should."""

from tests.scheduler.queue.conftest import NODE_ADDED, POD_DELETED, Waiting

from rota.scheduler.queue import in_flight_events
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.queue.in_flight_events import InFlightEvents, ObservedEvent


def test_an_event_during_the_attempt_counts_when_the_pod_comes_back() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.move(POD_DELETED)
    assert waiting.fail("a", "Easy") is QueueState.BACKOFF


def test_an_event_during_the_attempt_that_does_not_help_changes_nothing() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.move(NODE_ADDED, "b")
    waiting.move(POD_DELETED)
    assert waiting.fail("a", "Picky", "Deaf") is QueueState.UNSCHEDULABLE


def test_an_event_before_the_attempt_does_not_count() -> None:
    waiting = Waiting()
    waiting.add("a", "b")
    assert waiting.pop() == "a"
    waiting.move(POD_DELETED)
    assert waiting.pop() == "b"
    assert waiting.fail("b", "Easy") is QueueState.UNSCHEDULABLE
    assert waiting.fail("a", "Easy") is QueueState.BACKOFF


def test_what_a_pending_plugin_waited_for_during_the_attempt_spares_the_rest() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.move(POD_DELETED)
    waiting.move(NODE_ADDED, "a")
    assert waiting.fail("a", "Easy", pending=["Picky"]) is QueueState.ACTIVE


def test_a_fault_sends_a_pod_to_rest_whatever_happened() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    assert waiting.fail("a") is QueueState.ERROR_BACKOFF


def test_an_update_during_the_attempt_is_what_the_pod_comes_back_with() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.update("a", labels={"app": "new"})
    assert waiting.fail("a", "Picky") is QueueState.BACKOFF
    assert waiting.get("a").pod.labels == {"app": "new"}


def test_another_pods_update_does_not_count() -> None:
    waiting = Waiting()
    waiting.add("a", "b")
    waiting.pop()
    waiting.pop()
    waiting.update("a", labels={"app": "new"})
    assert waiting.fail("b", "Picky") is QueueState.UNSCHEDULABLE


def test_a_pod_deleted_or_bound_during_the_attempt_does_not_come_back() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    assert waiting.delete("a") is not None
    assert waiting.queue.requeue("uid-a", now=waiting.now, unschedulable_plugins={"Easy"}) is None
    assert len(waiting.queue) == 0


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.delete("a")
    document = waiting.pod("a")
    waiting.queue.add(document, waiting.now)
    assert waiting.pop() == "a"
    assert waiting.get("a").attempts == 1


def test_a_pod_with_a_node_ignores_events_and_backs_off_if_binding_fails() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.queue.done("uid-a")
    assert waiting.place("a") is QueueState.BINDING
    waiting.move(POD_DELETED)
    assert waiting.queue.inflight_events == 0
    assert waiting.fail("a") is QueueState.ERROR_BACKOFF


def test_binding_that_fails_by_a_refusal_never_leaves_the_pod_waiting_for_events_it_has_missed() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.queue.done("uid-a")
    assert waiting.fail("a", "Deaf") is QueueState.BACKOFF


def test_a_bound_pod_is_gone_and_its_late_failure_changes_nothing() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.queue.done("uid-a")
    waiting.delete("a")
    waiting.queue.done("uid-a")
    assert waiting.queue.requeue("uid-a", now=waiting.now) is None
    assert waiting.pop() == ""


def test_coming_back_twice_changes_nothing() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    assert waiting.queue.requeue("uid-a", now=waiting.now) is None
    assert waiting.place("a") is QueueState.UNSCHEDULABLE


def test_an_update_of_a_pod_with_a_node_is_kept_for_its_return() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.queue.done("uid-a")
    waiting.update("a", priority=8)
    waiting.fail("a")
    assert waiting.get("a").pod.priority == 8


def test_events_are_kept_only_while_a_pod_is_in_flight() -> None:
    log = InFlightEvents()
    log.note(ObservedEvent(NODE_ADDED, None, 0))
    assert log.events == 0
    log.start_attempt("a")
    log.note(ObservedEvent(NODE_ADDED, None, 1))
    log.start_attempt("b")
    log.note(ObservedEvent(NODE_ADDED, None, 2))
    assert [each.new for each in log.finish_attempt("a") or ()] == [1, 2]
    assert log.events == 1
    assert [each.new for each in log.finish_attempt("b") or ()] == [2]
    assert (log.events, len(log)) == (0, 0)


def test_a_pod_that_is_away_for_longer_than_events_are_kept_is_tried_again() -> None:
    log = InFlightEvents(kept=10)
    log.start_attempt("long")
    for number in range(15):
        log.note(ObservedEvent(NODE_ADDED, None, number))
    log.start_attempt("short")
    for number in range(15, 21):
        log.note(ObservedEvent(NODE_ADDED, None, number))
    assert log.events == 10
    assert log.finish_attempt("long") is None
    assert [each.new for each in log.finish_attempt("short") or ()] == list(range(15, 21))


def test_a_pod_that_waits_for_permission_for_very_long_is_not_stuck() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    for _ in range(2 * in_flight_events.KEPT + 1):
        waiting.move(POD_DELETED)
    assert waiting.queue.inflight_events <= 2 * in_flight_events.KEPT
    assert waiting.fail("a", "Deaf") is QueueState.BACKOFF
