"""numa-aware: policies of pods and nodes, and numbers of CPUs of NUMA nodes."""

from typing import Any

import pytest
from tests.scheduler.batch.situations import group, node, pod, situation

from rota.columns.objects import MalformedObjectError
from rota.scheduler.batch import numa_topologies, scenarios

CONF = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: numa-aware, arguments: {weight: 10}}]
"""


def topology(
    name: str, free: str, *, policy: str = "single-numa-node", manager: str = "static", numa: int = 2
) -> dict[str, Any]:
    """Eight CPUs on some NUMA nodes."""
    detail = {str(cpu): {"numa": cpu * numa // 8, "socket": 0, "core": cpu} for cpu in range(8)}
    policies = {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy}
    spec = {"policies": policies, "numares": {"cpu": {"allocatable": free, "capacity": 8}}, "cpuDetail": detail}
    return {"metadata": {"name": name}, "spec": spec}


def outcome(
    *topologies: dict[str, Any],
    cpu: str = "3",
    policy: str = "single-numa-node",
    pods: int = 1,
    guaranteed: bool = True,
) -> Any:
    asked = {"cpu": cpu, "memory": "1Gi"}
    annotations = {"volcano.sh/numa-topology-policy": policy}
    limits = asked if guaranteed else None
    return scenarios.decide(
        situation(
            CONF,
            nodes=[node(each["metadata"]["name"]) for each in topologies] or [node("a")],
            podGroups=[group("g", least=pods)],
            pods=[pod("g", number, asked, annotations=annotations, limits=limits) for number in range(pods)],
            numatopologies=list(topologies),
        )
    )


def test_a_pod_goes_where_one_numa_node_has_its_cpus() -> None:
    # a has six free CPUs, three on each side of which one is half taken; b has three on one side.
    assert outcome(topology("a", "0-1,4-5"), topology("b", "1-3")).binds == {"default/g-w-0": "b"}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (topology("a", "0-7", policy="restricted"), "another NUMA policy"),
        (topology("a", "0-7", manager="none"), "no static CPU manager"),
        (topology("a", "0-1,4-5"), "cannot keep the NUMA policy"),
    ],
)
def test_a_refused_group_says_why(wrong: dict[str, Any], reason: str) -> None:
    decided = outcome(wrong)
    assert not decided.binds
    assert reason in decided.conditions["default/g"].message


def test_a_node_without_a_topology_is_refused() -> None:
    assert not outcome().binds


def test_a_pod_without_a_policy_goes_anywhere() -> None:
    assert outcome(policy="none").binds == {"default/g-w-0": "a"}


def test_only_guaranteed_pods_get_cpus_of_their_own() -> None:
    assert outcome(topology("a", ""), guaranteed=False).binds == {"default/g-w-0": "a"}


def test_pods_that_a_session_places_count() -> None:
    assert len(outcome(topology("a", "0-7"), pods=2).binds) == 2
    assert not outcome(topology("a", "0-7"), pods=3).binds


def test_fewer_numa_nodes_are_better() -> None:
    spread, packed = topology("a", "0-1,4-5", policy="best-effort"), topology("b", "0-3", policy="best-effort")
    assert outcome(spread, packed, policy="best-effort").binds == {"default/g-w-0": "b"}


@pytest.mark.parametrize(
    ("policy", "number", "expected"),
    [
        ("best-effort", 3, {0: 2, 1: 1}),
        ("restricted", 3, None),
        ("restricted", 2, {0: 2}),
        ("single-numa-node", 2, {0: 2}),
        ("single-numa-node", 3, None),
        ("best-effort", 5, None),
    ],
)
def test_policies_assign_as_the_kubelet_does(policy: str, number: int, expected: dict[int, int] | None) -> None:
    read = numa_topologies.of_document(topology("a", "0-1,4-5", policy=policy))
    assert numa_topologies.assign(read, read.free, [number], policy) == expected


def test_restricted_allows_what_an_empty_machine_would_need() -> None:
    read = numa_topologies.of_document(topology("a", "0-7", policy="restricted"))
    assert numa_topologies.assign(read, read.free, [6], "restricted") == {0: 4, 1: 2}


def test_a_set_of_cpus_that_cannot_be_read_is_refused_by_its_path() -> None:
    with pytest.raises(MalformedObjectError, match=r"numatopologies\[0\]\.spec"):
        outcome(topology("a", "0-x"))
