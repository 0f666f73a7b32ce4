"""Nominations follow their pods: through updates, deletions, and what the API server has not heard of yet."""

from tests.scheduler.queue.conftest import Waiting

from rota.scheduler.queue.nominator import Nominator


def names(waiting: Waiting) -> dict[str, list[str]]:
    return {node: [pod.name for pod in pods] for node, pods in waiting.queue.nominations().items()}


def test_a_pod_that_comes_with_a_nomination_has_it() -> None:
    waiting = Waiting()
    waiting.add("a", nominated="n1")
    assert names(waiting) == {"n1": ["a"]}
    assert waiting.queue.nominated_node("uid-a") == "n1"


def test_a_pod_is_nominated_to_one_node_only() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.queue.nominate(waiting.pod("a"), "n1")
    waiting.queue.nominate(waiting.pod("a"), "n2")
    assert names(waiting) == {"n2": ["a"]}


def test_an_update_from_before_the_nomination_was_written_does_not_undo_it() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.queue.nominate(waiting.pod("a"), "n1")
    waiting.update("a", labels={"x": "y"})
    (nominated,) = waiting.queue.nominations()["n1"]
    assert nominated.labels == {"x": "y"}


def test_an_update_that_brings_moves_or_takes_a_nomination_is_believed() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.update("a", nominated="n1")
    assert names(waiting) == {"n1": ["a"]}
    waiting.update("a", nominated="n2")
    assert names(waiting) == {"n2": ["a"]}
    waiting.update("a")
    assert names(waiting) == {}


def test_a_deleted_pods_nomination_ends() -> None:
    waiting = Waiting()
    waiting.add("a", nominated="n1")
    waiting.delete("a")
    assert names(waiting) == {}


def test_a_nomination_outlives_attempts_until_it_is_withdrawn() -> None:
    waiting = Waiting()
    waiting.add("a", nominated="n1")
    waiting.pop()
    waiting.fail("a", "Easy")
    assert names(waiting) == {"n1": ["a"]}
    withdrawn = waiting.queue.withdraw("uid-a")
    assert withdrawn is not None
    assert withdrawn.name == "a"
    assert waiting.queue.withdraw("uid-a") is None
    assert names(waiting) == {}


def test_what_was_handed_out_does_not_change() -> None:
    waiting = Waiting()
    nominator = Nominator()
    nominator.put(waiting.pod("a"), "n1")
    before = nominator.by_node
    nominator.put(waiting.pod("b"), "n1")
    assert [pod.name for pod in before["n1"]] == ["a"]
    assert [pod.name for pod in nominator.by_node["n1"]] == ["a", "b"]
    assert len(nominator) == 2
