"""The accurate estimator: what fits on the nodes of members, and where bindings go by that."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from rota.bench.federation import PLACEMENTS, binding, cluster
from rota.client.verbs import Client, Object
from rota.federation import gates
from rota.federation.clusters import Cluster
from rota.federation.control.observers import Observers
from rota.federation.estimation import amounts, nodes
from rota.federation.estimation.capacity_sources import PREFIX
from rota.federation.estimation.member_nodes import MOST_SETS, MemberNodes, NodeCapacity
from rota.federation.member import connections, observation, summaries
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.testing import virtual_api

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def _node(name: str, cpu: str = "4", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name: str, node: str, cpu: str, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


def _capacities(given: list[Object], pods: list[Object]) -> tuple[NodeCapacity, ...]:
    shares = [one for one in map(summaries.pod_share, pods) if one is not None]
    return summaries.capacities([summaries.node_share(one) for one in given], shares)


def _known(*given: Object, pods: tuple[Object, ...] = ()) -> MemberNodes:
    found = MemberNodes()
    found.put("m1", _capacities(list(given), list(pods)))
    return found


@pytest.mark.parametrize(
    ("requirements", "count"),
    [
        ({"resourceRequest": {"cpu": "3"}}, 2),
        ({"resourceRequest": {"cpu": "5"}}, 0),
        ({"resourceRequest": {"cpu": "3"}, "nodeClaim": {"nodeSelector": {"disk": "fast"}}}, 1),
        ({"resourceRequest": {"cpu": "3"}, "nodeClaim": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}, 3),
        ({"resourceRequest": {"cpu": "3", f"{PREFIX}pool": "1"}}, 2),
        (None, 20),
    ],
    ids=["by node", "too large for each", "a selector", "a toleration", "capacity outside of nodes", "pods only"],
)
def test_replicas_fit_on_single_nodes_that_admit_them(requirements: Object | None, count: int) -> None:
    known = _known(
        _node("a", labels={"disk": "fast"}),
        _node("b"),
        _node("tainted", taints=[TAINT]),
        _node("closed", unschedulable=True),
    )
    assert known.replicas(requirements) == {"m1": count}
    assert known.replicas(requirements) == {"m1": count}, "a kept answer is the same"


def test_what_pods_have_is_not_free_and_answers_follow_the_nodes() -> None:
    given = [_node("a"), _node("b")]
    pods = [_pod("p", "a", "2"), _pod("q", "b", "3", "Succeeded"), _pod("r", "", "4")]
    known = _known(*given, pods=tuple(pods))
    asked = {"resourceRequest": {"cpu": "2"}}
    assert known.replicas(asked) == {"m1": 3}
    known.put("m1", _capacities(given, [*pods, _pod("s", "b", "4")]))
    assert known.replicas(asked) == {"m1": 1}
    known.drop("m1")
    assert known.replicas(asked) == {}


def test_observed_nodes_answer_as_the_objects_themselves() -> None:
    given = [_node("a", labels={"disk": "fast"}), _node("b", "6", taints=[TAINT]), _node("c", "1")]
    pods = [_pod("p", "a", "1500m"), _pod("q", "b", "500m"), _pod("r", "gone", "1")]
    for requirements in (
        {"resourceRequest": {"cpu": "700m", "memory": "1Gi"}},
        {"resourceRequest": {"cpu": "1"}, "nodeClaim": {"tolerations": [{"operator": "Exists"}]}},
        {"resourceRequest": {"example.com/gpu": "1"}},
    ):
        expected = nodes.replicas(nodes.rooms(given, pods), requirements)
        assert _known(*given, pods=tuple(pods)).replicas(requirements) == {"m1": expected}
    parts = [
        {"replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
        {"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}},
    ]
    expected = nodes.sets(nodes.rooms(given, pods), parts)
    known = _known(*given, pods=tuple(pods))
    assert expected > 0
    assert [known.sets(parts), known.sets(parts)] == [{"m1": expected}] * 2


def test_a_cluster_gets_what_its_nodes_hold_and_one_without_known_nodes_by_its_summary() -> None:
    fleet = Fleet(Cluster(cluster(number)) for number in (0, 1))
    wanted = binding(1, PLACEMENTS["dynamic weights"])
    wanted["spec"]["replicas"] = 20
    wanted["spec"]["replicaRequirements"] = {"resourceRequest": {"cpu": "3"}}
    by_summary = {one["name"]: one["replicas"] for one in Scheduler(fleet).schedule(wanted).clusters}
    assert by_summary["member-000"] > 1
    known = MemberNodes()
    known.put("member-000", _capacities([_node("a"), _node("b", "2")], []))
    found = Scheduler(fleet, nodes=known).schedule(wanted).clusters
    counts = {one["name"]: one["replicas"] for one in found}
    # one of the two nodes holds one replica: 1 of 27 that both clusters hold
    assert counts.get("member-000", 0) <= 1
    assert sum(counts.values()) == 20


def test_the_gate_is_off_unless_asked_for() -> None:
    assert not gates.DEFAULT.accurate_estimator
    assert gates.parse("AccurateEstimator=true").accurate_estimator


async def test_nodes_of_a_member_are_known_while_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_api.cluster() as member:
        answering = True

        @contextlib.asynccontextmanager
        async def connected(*_: Any, **__: Any) -> AsyncIterator[Client]:
            if not answering:
                raise connections.NoConnection("cut")
            yield member.client

        monkeypatch.setattr(connections, "connected", connected)
        await member.client.create(("", "v1", "nodes"), _node("a"))
        known = MemberNodes()
        watched = Observers(member.client, clock=member.clock, rng=member.rng, nodes=known)
        asked = {"resourceRequest": {"cpu": "1"}}

        async def observe() -> None:
            await watched.observe({"metadata": {"name": "m1"}, "spec": {"apiEndpoint": "https://m1"}})

        async def seen() -> bool:
            return known.replicas(asked) == {"m1": 4}

        async with member.running(observe):
            await member.until(seen)
        await watched.drop("m1")
        assert known.replicas(asked) == {}
        answering = False
        await observe()
        assert known.replicas(asked) == {}
        await watched.close()


@pytest.mark.parametrize(
    "damage",
    [
        {"spec": {"taints": "gpu"}},
        {"spec": {"taints": [{"key": ["gpu"], "effect": "NoSchedule"}]}},
        {"metadata": {"name": "n1", "labels": ["zone"]}},
        {"metadata": {"name": "n1", "labels": {"zone": {}}}},
        {"status": {"allocatable": {"cpu": "much"}}},
    ],
)
def test_a_node_of_a_hostile_member_that_is_none_is_left_out(damage: dict[str, Any]) -> None:
    assert observation._read_node(msgspec.json.encode({**_node("n1"), **damage})) is None
    assert observation._read_node(msgspec.json.encode(_node("n1", taints=[TAINT]))) is not None


_PARTS = [
    {"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}},
    {"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}},
]


def test_sets_on_many_nodes_are_counted_without_looking_at_full_nodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known, looks, contained = _known(*(_node(f"n{number}") for number in range(100))), [], amounts.times_contained

    def counted(free: Any, request: Any) -> int:
        looks.append(1)
        return contained(free, request)

    monkeypatch.setattr(amounts, "times_contained", counted)
    assert known.sets(_PARTS) == {"m1": 400}
    assert len(looks) < 4 * 2 * 400


def test_a_node_that_claims_endless_room_holds_no_more_than_is_ever_asked_for() -> None:
    endless = _node("a", "1e15")
    endless["status"]["allocatable"]["pods"] = "1e15"
    assert _known(endless).sets(_PARTS) == {"m1": MOST_SETS}
