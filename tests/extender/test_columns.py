"""Nodes that are only named are answered for as nodes that are sent whole: the arrays know what single nodes tell."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.extender import messages
from rota.extender.answers import Adviser
from rota.extender.columns import Columns, Named
from rota.extender.facts import NodeFacts
from rota.extender.view import View, read_pod
from rota.spot.node_readings import Capacity, Reading
from rota.spot.policies import BASE, MAX_SHARE, WISH, PolicyError
from rota.testing import manifests

START = 1_000_000.0
NAMES = [f"n{number}" for number in range(12)]
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def named(view: View, names: list[str]) -> Named:
    return view.columns.named(json.dumps(names).encode(), messages.names)


def facts(view: View, name: str) -> NodeFacts:
    known = view.nodes.get(name)
    if known is not None:
        return known
    reading = Reading(capacity=Capacity.UNKNOWN, notice=None, risky="", pool="")
    return NodeFacts(name=name, reading=reading, price=None, zone="", region="", allocatable={})


def node(name: str, capacity: str, place: int, price: str, taint: str) -> manifests.Document:
    labels = {"node.kubernetes.io/instance-type": f"t{place % 2}"}
    if capacity:
        labels["node.kubernetes.io/capacity"] = capacity
    if place:
        labels |= {ZONE: f"z{place}", REGION: f"r{place % 2}"}
    if price:
        labels["rota.dev/price"] = price
    made = manifests.node(name, **labels)
    if taint:
        made["spec"] = {"taints": [{"key": taint, "effect": "NoSchedule"}]}
    return made


def pod(name: str, on: str = "", owner: str = "", cpu: str = "500m", **annotations: str) -> manifests.Document:
    made = manifests.pod(name, on=on)
    made["metadata"]["annotations"] = annotations
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": owner, "controller": True}]
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


_NODES = st.builds(
    node,
    st.sampled_from(NAMES),
    st.sampled_from(["spot", "on-demand", ""]),
    st.integers(0, 4),
    st.sampled_from(["", "0", "0.5", "1.25", "much"]),
    st.sampled_from(["", "", "", "rota.dev/terminating", "rota.dev/at-risk"]),
)
_PODS = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from(NAMES),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["0", "500m", "3", "9"]),
)
_STEPS = st.lists(
    st.tuples(st.just("node"), _NODES)
    | st.tuples(st.just("gone"), st.sampled_from(NAMES))
    | st.tuples(st.just("pod"), _PODS)
    | st.tuples(st.just("pod gone"), _PODS),
    max_size=40,
)
_ASKED = st.lists(st.sampled_from([*NAMES, "unknown", 'ünknown"\\']), unique=True)
_WISHES: list[dict[str, str]] = [{}, {WISH: "only"}, {WISH: "never"}, {BASE: "1"}, {BASE: "2", MAX_SHARE: "50"}]


@pytest.mark.slow
@given(_STEPS, _ASKED, st.sampled_from(_WISHES), st.sampled_from(["a", "b", ""]))
def test_named_nodes_are_answered_for_as_whole_ones(
    steps: list[tuple[str, Any]], asked: list[str], wish: dict[str, str], owner: str
) -> None:
    view, now = View(), START
    new = pod("new", owner=owner, **wish)
    for what, about in steps:
        now += 600.0
        match what:
            case "node":
                view.put_node(about, now=now)
            case "gone":
                view.remove_node(about, now=now)
            case "pod":
                view.put_pod(read_pod(about))
            case _:
                view.remove_pod(read_pod(about))
        # also what was asked before something changed
        named(view, asked)
    adviser, single = Adviser(view), [facts(view, name) for name in asked]
    try:
        whole = adviser.filter(new, single, now=now)
    except PolicyError:
        with pytest.raises(PolicyError):
            adviser.filter_named(new, named(view, asked), now=now)
        return
    found = adviser.filter_named(new, named(view, asked), now=now)
    assert (list(found.passed), found.failed, found.unresolvable) == (
        whole.passed,
        whole.failed,
        whole.unresolvable,
    )
    assert adviser.prioritize_named(new, named(view, asked), now=now) == adviser.prioritize(new, single, now=now)


def test_a_list_of_names_is_read_once_and_looked_up_again_when_nodes_come_and_go() -> None:
    view, reads = View(), 0

    def read(raw: bytes) -> list[str]:
        nonlocal reads
        reads += 1
        return messages.names(raw)

    raw = b'["a","b"]'
    assert view.columns.named(raw, read).slots.tolist() == [0, 0]
    view.put_node(manifests.node("b"), now=START)
    (unknown, known) = view.columns.named(raw, read).slots.tolist()
    assert (unknown, known > 0) == (0, True)
    view.remove_node("b", now=START)
    assert view.columns.named(raw, read).slots.tolist() == [0, 0]
    assert reads == 1
    for number in range(50):
        view.columns.named(f'["{number}"]'.encode(), read)
    assert len(view.columns._named) <= 8
    kept = list(view.columns._named)
    huge = b'["a"' + b" " * 9_000_000 + b"]"
    assert view.columns.named(huge, read).names == ["a"]
    assert list(view.columns._named) == kept


def test_thousands_of_nodes_have_room_and_slots_are_used_again() -> None:
    view = View()
    for number in range(3000):
        view.put_node(manifests.node(f"n{number}", **{"rota.dev/price": str(number)}), now=START)
    for number in range(0, 3000, 2):
        view.remove_node(f"n{number}", now=START)
    for number in range(1500):
        view.put_node(manifests.node(f"m{number}"), now=START)
    names = [f"n{number}" for number in range(1, 3000, 2)] + [f"m{number}" for number in range(1500)]
    slots = named(view, names).slots.tolist()
    assert len(set(slots)) == 3000
    assert max(slots) == 3000


def test_entries_of_scores_are_json_whatever_the_name() -> None:
    columns = Columns()
    odd = ["a", 'quote"', "back\\slash", "ünï", "new\nline"]
    found = columns.named(json.dumps(odd).encode(), messages.names)
    answer = json.loads(messages.host_priorities_of(found.entries, [0, 1, 5, 9, 10]))
    assert answer == [{"Host": name, "Score": score} for name, score in zip(odd, [0, 1, 5, 9, 10], strict=True)]
    assert json.loads(messages.host_priorities_of([], [])) == []
