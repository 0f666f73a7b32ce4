"""Exclusive workloads, moves and the pace of evictions: the decisions alone."""

from typing import Any

import pytest

from rota.api import meta
from rota.federation.clusters import Cluster
from rota.federation.failover import eviction_rate, exclusive, moves
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler


def resource(kind: str, said: str = "") -> dict[str, Any]:
    marks = {"rota.dev/exclusive": said} if said else {}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db", "annotations": marks}}


def work(
    cluster: str, replicas: int, *, reported: int = 0, deleting: bool = False, grace: int | None = None
) -> dict[str, Any]:
    pod = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    manifest = {"kind": "StatefulSet", "spec": {"replicas": replicas, "template": {"spec": pod}}}
    metadata: dict[str, Any] = {"namespace": f"karmada-es-{cluster}", "name": "db"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"workload": {"manifests": [manifest]}},
        "status": {"manifestStatuses": [{"status": {"replicas": reported}}]},
    }


def cluster(name: str, *, ready: bool = True, taints: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"syncMode": "Push", "taints": list(taints)},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"name": "statefulsets", "kind": "StatefulSet"}]}
            ],
        },
    }


def binding(*clusters: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "db-statefulset", "namespace": "default"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "namespace": "default"},
            "replicas": 1,
            "placement": {},
            "clusters": [{"name": name, "replicas": 1} for name in clusters],
        },
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (resource("StatefulSet"), True),
        (resource("StatefulSet", "false"), False),
        (resource("Deployment"), False),
        (resource("Deployment", "true"), True),
    ],
)
def test_stateful_sets_and_annotated_resources_are_exclusive(obj: dict[str, Any], expected: bool) -> None:
    assert exclusive.is_exclusive(obj) is expected


def test_a_cluster_leaves_that_has_more_than_it_should() -> None:
    wanted = [work("m1", 1), work("m2", 2)]
    present = [work("m1", 3, reported=3), work("m2", 1, reported=1), work("m3", 1), work("m4", 1, deleting=True)]
    assert [exclusive.cluster_of(one) for one in exclusive.leaving(present, wanted)] == ["m1", "m3", "m4"]


def test_growth_is_more_replicas_or_a_new_work() -> None:
    assert exclusive.grows(work("m1", 1), None)
    assert exclusive.grows(work("m1", 2), work("m1", 1))
    assert not exclusive.grows(work("m1", 1), work("m1", 2))


def test_stopping_takes_the_grace_period_of_the_pods() -> None:
    assert exclusive.stopping_s(work("m1", 1)) == 30
    assert exclusive.stopping_s(work("m1", 1, grace=5)) == 5
    assert exclusive.stopping_s(work("m1", 1, grace=120)) == 120


@pytest.mark.parametrize(("text", "expected"), [("60", 60.0), ("", None), ("soon", None), ("-1", None), ("0", None)])
def test_only_a_positive_time_on_the_lease_is_a_fence(text: str, expected: float | None) -> None:
    lease = {"metadata": {"annotations": {exclusive.FENCE_AFTER: text}}}
    assert exclusive.fence_after_s(lease) == expected


def plan(*, answers: bool, fenced: bool, others: tuple[dict[str, Any], ...]) -> moves.Move:
    changed = {
        **binding()["spec"],
        "gracefulEvictionTasks": [{"fromCluster": "m1", "purgeMode": "Gracefully", "gracePeriodSeconds": 5}],
    }
    scheduler = Scheduler(Fleet(map(Cluster, others)))
    return moves.planned(binding("m1"), changed, "m1", scheduler, exclusive=True, answers=answers, fenced=fenced)


def test_exclusive_work_is_not_moved_from_a_silent_cluster_without_an_agent() -> None:
    refused = plan(answers=False, fenced=False, others=(cluster("m2"),))
    assert refused.refused == moves.NO_FENCING_AGENT
    assert "StatefulSet db is exclusive, and cluster m1 has no agent" in refused.message


@pytest.mark.parametrize(("answers", "fenced"), [(True, False), (False, True), (True, True)])
def test_exclusive_work_moves_directly_where_the_old_copy_is_known_to_stop(answers: bool, fenced: bool) -> None:
    move = plan(answers=answers, fenced=fenced, others=(cluster("m2"),))
    assert not move.refused
    assert [one["name"] for one in move.clusters] == ["m2"]
    assert move.spec["gracefulEvictionTasks"] == [{"fromCluster": "m1", "purgeMode": "Directly"}]


def test_nothing_is_evicted_that_no_other_cluster_can_take() -> None:
    tainted = cluster("m2", taints=({"key": "a", "effect": "NoSchedule"},))
    assert plan(answers=True, fenced=True, others=(tainted,)).refused == moves.NO_SUBSTITUTE


def test_evictions_stop_when_no_cluster_answers_and_slow_down_when_most_do_not() -> None:
    ready, lost = cluster("a"), cluster("b", ready=False)
    assert eviction_rate.interval_s([ready, lost], 0.5) == 2.0
    assert eviction_rate.interval_s([ready, lost, lost], 0.5) == 10.0
    assert eviction_rate.interval_s([lost, lost, lost], 0.5) is None


def test_a_cluster_that_leaves_the_federation_does_not_count() -> None:
    going = cluster("c", ready=False)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert meta.is_deleting(going)
    assert eviction_rate.share_lost([cluster("a"), going]) == 0.0


def test_the_clusters_that_were_left_are_remembered_until_the_return() -> None:
    before = binding("m2")
    marked = moves.with_left(before, ["m1"], "2026-01-01T00:00:00Z")
    before["metadata"]["annotations"] = {moves.LEFT: marked}
    assert moves.left(before) == {"m1": "2026-01-01T00:00:00Z"}
    assert moves.without_left(before, {"m1"}) is None
    before["metadata"]["annotations"] = {moves.LEFT: "garbage"}
    assert moves.left(before) == {}
