"""Failback and drills: the decisions alone."""

from typing import Any

import pytest

from rota.api import times
from rota.federation.clusters import Cluster
from rota.federation.failover import drill, failback, moves
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler

#: A Wednesday.
NOW = times.parse("2026-01-07T12:00:00Z")
APPLIED = {"policy.karmada.io/applied-placement": "{}"}


def cluster(name: str, *, since: str = "2026-01-07T11:00:00Z", ready: bool = True) -> dict[str, Any]:
    kinds = [{"name": "deployments", "kind": "Deployment"}, {"name": "statefulsets", "kind": "StatefulSet"}]
    return {
        "metadata": {"name": name},
        "spec": {"syncMode": "Push"},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}],
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": kinds}],
        },
    }


def binding(kind: str = "Deployment", *, at: str = "m2", left: str = "m1") -> dict[str, Any]:
    annotations = {**APPLIED, **({moves.LEFT: f'{{"{left}": "2026-01-07T10:00:00Z"}}'} if left else {})}
    placement = {
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2"]},
        ]
    }
    return {
        "metadata": {"name": f"web-{kind.lower()}", "namespace": "default", "annotations": annotations},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": kind, "name": "web", "namespace": "default"},
            "replicas": 2,
            "placement": placement,
            "clusters": [{"name": at, "replicas": 2}],
        },
        "status": {
            "lastScheduledTime": "2026-01-07T10:00:00Z",
            "schedulerObservingAffinityName": "first" if at == "m1" else "second",
        },
    }


def policy(name: str = "back", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def scheduler(*clusters: dict[str, Any]) -> Scheduler:
    return Scheduler(Fleet(map(Cluster, clusters)))


def test_a_binding_returns_to_its_first_choice_and_keeps_the_old_copy_until_the_new_one_is_healthy() -> None:
    found = failback.planned(binding(), {"m1"}, scheduler(cluster("m1"), cluster("m2")), NOW, exclusive=False)
    assert isinstance(found, failback.Return)
    assert found.homes == {"m1"}
    assert found.spec["clusters"] == [{"name": "m1", "replicas": 2}]
    assert found.spec["rescheduleTriggeredAt"] == "2026-01-07T12:00:00Z"
    (task,) = found.spec["gracefulEvictionTasks"]
    assert (task["fromCluster"], task["purgeMode"], task["replicas"]) == ("m2", "Gracefully", 2)


def test_an_exclusive_binding_returns_without_a_second_copy() -> None:
    found = failback.planned(
        binding("StatefulSet"), {"m1"}, scheduler(cluster("m1"), cluster("m2")), NOW, exclusive=True
    )
    assert isinstance(found, failback.Return)
    assert "gracefulEvictionTasks" not in found.spec


def test_a_binding_stays_if_a_fresh_placement_does_not_use_the_cluster_that_it_left() -> None:
    found = failback.planned(binding(left="m3"), {"m3"}, scheduler(cluster("m1")), NOW, exclusive=False)
    assert isinstance(found, failback.Wait)


def test_a_cluster_must_have_been_healthy_for_the_stabilization_time() -> None:
    present = {"m1": cluster("m1", since="2026-01-07T11:59:00Z")}
    assert failback.homes(binding(), policy(stabilizationSeconds=60), present, NOW) == {"m1"}
    found = failback.homes(binding(), policy(stabilizationSeconds=90), present, NOW)
    assert found == failback.Wait("no cluster that it left has been healthy for long enough", 30.0)


def test_a_cluster_that_is_tainted_or_not_selected_is_no_home() -> None:
    tainted = cluster("m1")
    tainted["spec"]["taints"] = [{"key": "a", "effect": "NoSchedule"}]
    assert isinstance(failback.homes(binding(), policy(), {"m1": tainted}, NOW), failback.Wait)
    other = policy(targetClusters={"clusterNames": ["m9"]})
    assert isinstance(failback.homes(binding(), other, {"m1": cluster("m1")}, NOW), failback.Wait)


@pytest.mark.parametrize(
    ("window", "wait_s"),
    [
        ({"start": "11:00", "end": "13:00"}, 0),
        ({"start": "13:00", "end": "14:00"}, 3600),
        ({"start": "22:00", "end": "12:30"}, 0),
        ({"start": "11:00", "end": "13:00", "days": ["Thu"]}, 23 * 3600),
        ({"start": "11:00", "end": "11:30", "days": ["Wed"]}, 6 * 86_400 + 23 * 3600),
        ({"start": "00:00", "end": "00:00", "days": ["Wed"]}, 0),
    ],
)
def test_a_window_opens_at_its_time_on_its_days(window: dict[str, Any], wait_s: float) -> None:
    assert failback.until_window_s(policy(windows=[window]), NOW) == wait_s


def test_the_oldest_policy_that_selects_a_resource_decides() -> None:
    everything = policy("all")
    everything["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    stateful = policy("stateful", resourceSelectors=[{"apiVersion": "apps/v1", "kind": "StatefulSet"}])
    stateful["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert failback.policy_for(binding("StatefulSet"), [everything, stateful]) is stateful
    assert failback.policy_for(binding(), [everything, stateful]) is everything
    assert failback.policy_for(binding(), [stateful]) is None


def work(*, exclusive: bool) -> dict[str, Any]:
    labels = {"rota.dev/exclusive": "true"} if exclusive else {}
    pod = {"terminationGracePeriodSeconds": 10}
    manifest = {"kind": "StatefulSet", "spec": {"replicas": 2, "template": {"spec": pod}}}
    metadata = {"namespace": "karmada-es-m1", "labels": labels}
    return {"metadata": metadata, "spec": {"workload": {"manifests": [manifest]}}}


def foretold(lease: dict[str, Any] | None, *clusters: dict[str, Any]) -> list[drill.Row]:
    pace = drill.Pace(detection_s=40, eviction_rate=0.5, fence_margin_s=20)
    found = [binding(at="m1", left=""), binding("StatefulSet", at="m1", left=""), binding(at="m2", left="")]
    works = {("default", "web-statefulset"): [work(exclusive=True)], ("default", "web-deployment"): []}
    return drill.foretold(found, "m1", clusters, works, lease, pace)


def test_a_drill_foretells_moves_refusals_and_times() -> None:
    rows = foretold(None, cluster("m1"), cluster("m2"))
    assert [(row.kind, row.moves, dict(row.gains), row.after_s) for row in rows] == [
        ("Deployment", True, {"m2": 2}, 40.0),
        ("StatefulSet", False, {}, None),
    ]
    assert "has no agent" in rows[1].refused


def test_a_drill_adds_the_time_until_an_agent_has_stopped_exclusive_work() -> None:
    lease = {"metadata": {"annotations": {"rota.dev/fence-after-seconds": "60"}}}
    rows = foretold(lease, cluster("m1"), cluster("m2"))
    assert [row.after_s for row in rows] == [40.0, 60.0 + 10.0 + 20.0]


def test_nothing_moves_if_no_other_cluster_answers() -> None:
    assert [row.moves for row in foretold(None, cluster("m1"), cluster("m2", ready=False))] == [False, False]


def test_a_binding_has_recovered_when_it_is_healthy_elsewhere() -> None:
    moved = binding(at="m2")
    assert not drill.is_recovered(moved, "m1")
    moved["status"]["aggregatedStatus"] = [{"clusterName": "m2", "health": "Healthy"}]
    assert drill.is_recovered(moved, "m1")
    assert not drill.is_recovered(moved, "m2")
