"""What the extender answers from its view of a cluster; no sockets."""

from typing import Any

import pytest

from rota.extender.answers import Adviser, Filtered
from rota.extender.view import Placed, View, read_pod
from rota.spot.policies import BASE, MAX_SHARE, WISH, PolicyError
from rota.testing import manifests

NOW = 1_000_000.0
OWNER = "owner-uid"


def spot(name: str, **labels: str) -> manifests.Document:
    return manifests.node(name, **{"node.kubernetes.io/capacity": "spot", **labels})


def staying(name: str, **labels: str) -> manifests.Document:
    return manifests.node(name, **{"node.kubernetes.io/capacity": "on-demand", **labels})


def pod(name: str, on: str = "", **annotations: str) -> manifests.Document:
    made = manifests.pod(name, on=on)
    made["metadata"]["annotations"] = annotations
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": OWNER, "controller": True}]
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return made


def ending(node: manifests.Document) -> manifests.Document:
    return {**node, "spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]}}


@pytest.fixture
def view() -> View:
    made = View()
    for node in (spot("s1"), spot("s2"), staying("d1")):
        made.put_node(node, now=NOW)
    return made


def filtered(view: View, **annotations: str) -> Filtered:
    return Adviser(view).filter(pod("new", **annotations), view.nodes.values(), now=NOW)


def scores(view: View, **annotations: str) -> dict[str, int]:
    found = Adviser(view).prioritize(pod("new", **annotations), list(view.nodes.values()), now=NOW)
    return dict(zip(view.nodes, found, strict=True))


def test_spot_is_preferred_and_nothing_is_ruled_out(view: View) -> None:
    assert filtered(view).passed == ["s1", "s2", "d1"]
    found = scores(view)
    assert found["s1"] == found["s2"] > found["d1"]


def test_a_machine_about_to_end_is_out_at_once_and_cannot_be_won_by_preempting(view: View) -> None:
    view.put_node(ending(spot("s1")), now=NOW)
    found = filtered(view)
    assert found.passed == ["s2", "d1"]
    assert "ends in 120 s" in found.unresolvable["s1"]
    assert scores(view)["s1"] == 0
    assert Adviser(view).worth_preempting(pod("new"), view.nodes.values()) == ["s2", "d1"]


def test_a_notice_without_a_time_of_its_own_does_not_move(view: View) -> None:
    view.put_node(ending(spot("s1")), now=NOW)
    view.put_node(ending(spot("s1")), now=NOW + 60)
    notice = view.nodes["s1"].reading.notice
    assert notice is not None
    assert notice.left(NOW + 60) == 60


def test_a_machine_whose_notice_was_taken_back_is_there_again(view: View) -> None:
    view.put_node(ending(spot("s1")), now=NOW)
    view.put_node(spot("s1"), now=NOW + 5)
    assert "s1" in filtered(view).passed


def test_a_node_made_anew_under_its_old_name_has_no_notice(view: View) -> None:
    view.put_node(ending(spot("s1")), now=NOW)
    view.remove_node("s1", now=NOW + 1)
    view.put_node(spot("s1"), now=NOW + 2)
    assert view.nodes["s1"].reading.notice is None


def test_only_and_never_rule_machines_out(view: View) -> None:
    assert filtered(view, **{WISH: "only"}).passed == ["s1", "s2"]
    assert filtered(view, **{WISH: "never"}).passed == ["d1"]


def test_the_base_comes_first_and_then_the_share(view: View) -> None:
    wants = {BASE: "2", MAX_SHARE: "50"}
    assert filtered(view, **wants).passed == ["d1"]
    for name in ("a", "b"):
        view.put_pod(read_pod(pod(name, on="d1")))
    # beyond the base the first may not be on spot, for it alone would be all of them
    assert filtered(view, **wants).passed == ["d1"]
    view.put_pod(read_pod(pod("c", on="d1")))
    assert filtered(view, **wants).passed == ["s1", "s2", "d1"]
    view.put_pod(read_pod(pod("d", on="s1")))
    assert filtered(view, **wants).passed == ["d1"]
    assert MAX_SHARE in filtered(view, **wants).failed["s1"]


def test_pods_that_end_or_have_ended_are_not_counted(view: View) -> None:
    wants = {BASE: "1"}
    leaving = pod("a", on="d1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    view.put_pod(read_pod(leaving))
    over = pod("b", on="d1")
    over["status"] = {"phase": "Succeeded"}
    view.put_pod(read_pod(over))
    assert filtered(view, **wants).passed == ["d1"]
    assert view.nodes["d1"].used["cpu"] == 1000  # who ends holds what it has until it is gone


def test_a_pod_that_moves_or_goes_is_counted_where_it_is(view: View) -> None:
    view.put_pod(read_pod(pod("a", on="d1")))
    view.put_pod(read_pod(pod("a", on="s1")))
    assert (view.spread(OWNER).spot, view.spread(OWNER).staying) == (1, 0)
    view.remove_pod(read_pod(pod("a")))
    assert (view.spread(OWNER).spot, view.spread(OWNER).staying) == (0, 0)
    assert not any(any(one.used.values()) for one in view.nodes.values())


def test_contradictory_annotations_are_reported_not_guessed(view: View) -> None:
    with pytest.raises(PolicyError, match="remove one"):
        filtered(view, **{WISH: "only", BASE: "1"})
    lonely = manifests.pod("lonely")
    lonely["metadata"]["annotations"] = {BASE: "1"}
    with pytest.raises(PolicyError, match="this pod has none"):
        Adviser(view).filter(lonely, view.nodes.values(), now=NOW)


def test_of_spot_machines_the_cheaper_emptier_nearer_and_surer_is_better() -> None:
    def compare(good: manifests.Document, bad: manifests.Document, *pods: manifests.Document) -> None:
        view = View()
        for node in (good, bad):
            view.put_node(node, now=NOW)
        for one in pods:
            view.put_pod(read_pod(one))
        found = scores(view)
        assert found[good["metadata"]["name"]] > found[bad["metadata"]["name"]]

    price = {"rota.dev/price": "0.1"}, {"rota.dev/price": "0.9"}
    compare(spot("a", **price[0]), spot("b", **price[1]))
    other = manifests.pod("full", on="b")
    other["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    compare(spot("a"), spot("b"), other)
    risky: dict[str, Any] = spot("b")
    risky["spec"] = {"taints": [{"key": "aws-node-termination-handler/rebalance-recommendation"}]}
    compare(spot("a"), risky)


def test_a_pool_that_lost_machines_is_avoided() -> None:
    view = View()
    kind = "node.kubernetes.io/instance-type"
    for number in range(4):
        view.put_node(spot(f"bad{number}", **{kind: "x"}), now=NOW)
        view.put_node(spot(f"good{number}", **{kind: "y"}), now=NOW)
    later = NOW + 3600
    for number in range(3):
        for _ in range(40):
            name = f"bad{number}"
            view.put_node(ending(spot(name, **{kind: "x"})), now=later)
            view.put_node(spot(name, **{kind: "x"}), now=later)
    found = scores(view)
    assert found["good0"] > found["bad3"]


def test_a_node_that_comes_after_its_pods_counts_them_without_a_look_at_all_others() -> None:
    class Counted(dict[str, Placed]):
        looks = 0

        def values(self) -> Any:
            Counted.looks += 1
            return super().values()

    view = View()
    for number in range(10):
        view.put_pod(read_pod(pod(f"p{number}", on="late" if number < 3 else "other")))
    everything = Counted(view._pods)
    vars(view)["_pods"] = everything
    view.put_node(spot("late"), now=NOW)
    assert view.nodes["late"].used["cpu"] == 3000
    assert not Counted.looks


def test_of_a_pod_only_what_counts_is_kept() -> None:
    kept = read_pod(pod("a", on="d1"))
    assert (kept.node, kept.owner, kept.requests["cpu"]) == ("d1", OWNER, 1000)
    view = View()
    view.put_pod(kept)
    view.remove_pod(kept)
    assert not view._by_node
