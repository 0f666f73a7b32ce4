"""Where replicas go that a cluster cannot schedule."""

import msgspec
import pytest

from rota.bench.federation import PLACEMENTS, binding, cluster
from rota.federation.clusters import Cluster
from rota.federation.failover import descheduler
from rota.federation.member import unschedulable
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.federation.placement.triggers import APPLIED_PLACEMENT

PLACEMENT = PLACEMENTS["dynamic weights"]


def divided(**held: int) -> descheduler.Object:
    found = binding(1, PLACEMENT)
    found["metadata"]["annotations"] = {APPLIED_PLACEMENT: msgspec.json.encode(PLACEMENT).decode()}
    found["spec"]["clusters"] = [{"name": name.replace("_", "-"), "replicas": count} for name, count in held.items()]
    found["spec"]["replicas"] = sum(held.values())
    return found


def test_stuck_replicas_are_placed_in_clusters_that_schedule_theirs() -> None:
    scheduler = Scheduler(Fleet(Cluster(cluster(number)) for number in (0, 1)))
    stuck = divided(member_000=3, member_001=2)
    assert descheduler.considered(stuck)
    assert descheduler.moved(stuck, {"member-000": 2}, scheduler) == [
        {"name": "member-000", "replicas": 1},
        {"name": "member-001", "replicas": 4},
    ]


@pytest.mark.parametrize("clusters", [(0,), (0, 9)], ids=["no other cluster", "the other one has a taint"])
def test_stuck_replicas_stay_where_no_other_cluster_takes_them(clusters: tuple[int, ...]) -> None:
    scheduler = Scheduler(Fleet(Cluster(cluster(number)) for number in clusters))
    assert descheduler.moved(divided(member_000=3), {"member-000": 2}, scheduler) is None


def work(generation: int, mark: str = "") -> descheduler.Object:
    annotations = {unschedulable.COUNT: mark} if mark else {}
    return {"metadata": {"generation": generation, "annotations": annotations}}


def test_a_count_is_valid_for_one_generation_of_its_work() -> None:
    assert unschedulable.mark(work(7), 2) == "2@7"
    assert unschedulable.mark(work(7), 0) is None
    assert unschedulable.marked(work(7, "2@7")) == 2
    for other in (work(8, "2@7"), work(7), work(7, "2"), work(7, "many@7"), work(7, "-2@7")):
        assert unschedulable.marked(other) == 0


@pytest.mark.parametrize(
    ("status", "short"),
    [
        ({"observedGeneration": 3, "replicas": 2, "readyReplicas": 1}, True),
        ({"observedGeneration": 3, "replicas": 2, "readyReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "readyReplicas": 1}, False),
        ({"observedGeneration": 3, "replicas": 3, "readyReplicas": 1}, False),
        ({}, False),
    ],
    ids=["short", "ready", "not observed yet", "not scaled down yet", "no status"],
)
def test_replicas_are_counted_once_their_controller_has_settled(status: descheduler.Object, short: bool) -> None:
    deployment = {"kind": "Deployment", "metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": status}
    assert unschedulable.is_short(deployment) is short
