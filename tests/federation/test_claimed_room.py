"""What a member says about its room: amounts that no cluster has neither stop nor fill the control plane."""

from rota.federation.clusters import Cluster
from rota.federation.estimation import models, summary

ENDLESS = str(2**20)


def _claims(count: int) -> Cluster:
    grade = {"grade": 0, "ranges": [{"name": "cpu", "min": ENDLESS, "max": ENDLESS}]}
    status = {
        "allocatable": {"cpu": ENDLESS, "pods": str(2**30)},
        "allocatableModelings": [{"grade": 0, "count": count}],
    }
    spec = {"resourceModels": [grade]}
    return Cluster({"metadata": {"name": "m1"}, "spec": spec, "status": {"resourceSummary": status}})


def test_no_more_nodes_are_counted_than_a_cluster_has() -> None:
    rooms = models.rooms(_claims(2**31 - 1))
    assert rooms is not None
    assert len(rooms) == models.MOST_NODES
    few = models.rooms(_claims(3))
    assert few is not None
    assert len(few) == 3


def test_sets_of_components_are_counted_to_a_bound() -> None:
    part = {"name": "a", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1m"}}}
    assert summary.sets(_claims(2**31 - 1), [part]) == summary.MOST_SETS
