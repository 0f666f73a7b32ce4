from typing import Any

from rota.client.informers.cache import Key
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.sharding.node_knowledge import Choices, Criterion, NodeKnowledge, Synchronisation
from rota.testing.clusters import make_pod

NODES = {f"n{number}": number for number in range(8)}
ROUND_ROBIN = Choices(Criterion.COARSE, Synchronisation.ROUND_ROBIN)


class _Cluster:
    def __init__(self) -> None:
        self.size = 8
        self.version = "10"
        self.knowledge = NodeKnowledge(NODES.get, lambda: self.size, lambda: self.version)


def _pod(name: str, node: str = "", uid: str = "") -> PodInfo:
    pod: dict[str, Any] = make_pod(name, on=node or None)
    pod["metadata"]["uid"] = uid or f"uid-{name}"
    return PodInterner().pod(pod)


def test_a_change_is_kept_back_until_the_part_of_its_node_is_learned() -> None:
    cluster = _Cluster()
    known = cluster.knowledge
    assert not known.partial
    assert known.configure(ROUND_ROBIN, 2) == []
    assert known.partial
    first, last = (Key("a", "default"), None, _pod("a", "n0")), (Key("b", "default"), None, _pod("b", "n7"))
    assert known.hold(first) == []
    assert known.hold(last) == []
    assert known.next_round(0) == ([last], 4)  # the second part
    assert known.next_round(0) == ([first], 0)
    assert len(known) == 0


def test_changes_of_a_pod_are_merged_and_a_pod_that_came_and_went_is_never_learned() -> None:
    known = _Cluster().knowledge
    known.configure(ROUND_ROBIN, 2)
    key, bound, running = Key("a", "default"), _pod("a", "n0"), _pod("a", "n0")
    known.hold((key, None, bound))
    known.hold((key, bound, running))
    assert known.holds(key)
    assert known.all() == [(key, None, running)]
    known.hold((key, None, bound))
    known.hold((key, bound, None))
    assert known.all() == []
    known.hold((key, bound, None))
    assert known.all() == [(key, bound, None)]


def test_another_pod_of_the_same_name_does_not_overtake() -> None:
    known = _Cluster().knowledge
    known.configure(ROUND_ROBIN, 2)
    key, one, other = Key("a", "default"), _pod("a", "n0", uid="1"), _pod("a", "n1", uid="2")
    first, second = (key, one, None), (key, None, other)
    known.hold(first)
    assert known.hold(second) == []
    assert known.all() == [(key, one, other)]
    known.hold((key, None, one))
    assert known.hold((key, other, None)) == [(key, None, one), (key, other, None)]


def test_versions_are_those_of_the_part_and_of_own_bindings() -> None:
    cluster = _Cluster()
    known = cluster.knowledge
    assert known.seen("n0") == ""
    known.configure(Choices(Criterion.COARSE), 2)
    assert known.seen("n0") == "10"
    known.configure(ROUND_ROBIN, 2)
    cluster.version = "20"
    assert (known.seen("n0"), known.seen("n7")) == ("10", "10")
    known.next_round(0)
    assert (known.seen("n0"), known.seen("n7")) == ("10", "20")
    known.bound("n0", "15")
    assert (known.seen("n0"), known.seen("n1")) == ("15", "10")
    assert known.latest("n0", "12") == "15"
    cluster.version = "30"
    assert known.learn_node("n1") == []
    assert known.seen("n1") == "30"


def test_everything_is_learned_when_nodes_or_schedulers_come() -> None:
    cluster = _Cluster()
    known = cluster.knowledge
    known.configure(ROUND_ROBIN, 2)
    changes = [(Key(f"p{row}", "default"), None, _pod(f"p{row}", f"n{row}")) for row in range(8)]
    for change in changes:
        known.hold(change)
    cluster.size = 9
    assert known.next_round(0)[0] == changes
    for change in changes:
        known.hold(change)
    assert known.configure(ROUND_ROBIN, 3) == changes


def test_versions_of_own_bindings_are_kept_for_nodes_that_exist() -> None:
    cluster = _Cluster()
    known = cluster.knowledge
    known.configure(ROUND_ROBIN, 2)
    known.bound("n3", "20")
    for number in range(1_000):
        known.bound(f"gone-{number}", "30")
    assert len(known._own) <= 2 * cluster.size + 65
    assert known.seen("n3") == "20"
