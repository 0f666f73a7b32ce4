"""Where replicas go that a cluster cannot schedule."""

import msgspec
import pytest

from rota.bench.federation import PLACEMENTS, binding, cluster
from rota.federation.clusters import Cluster
from rota.federation.failover import descheduler
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
