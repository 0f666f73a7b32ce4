"""Resources of pods by recommendation: limits, policies, LimitRanges, and the pods that are left as they are."""

from typing import Any

import pytest

from rota.forecaster import recommended_pods
from rota.forecaster.recommended_pods import Amount, Wanted
from rota.testing.clusters import Document, make_pod

GI = 2**30


def autoscaler(target: dict[str, str], *, mode: str = "Recreate", name: str = "vpa", **policy: Any) -> Document:
    spec: Document = {"targetRef": {"kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": mode}}
    if policy:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", **policy}]}
    each = {"containerName": "c", "target": target, "lowerBound": target, "upperBound": target}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"recommendation": {"containerRecommendations": [each]}},
    }


def pod(requests: dict[str, str] | None, limits: dict[str, str] | None = None) -> Document:
    made = make_pod("web-1")
    made["spec"]["containers"][0]["resources"] = {
        side: values for side, values in (("requests", requests), ("limits", limits)) if values
    }
    made["metadata"]["labels"] = {"pod-template-hash": "5d4"}
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5d4", "controller": True}]
    return made


def limit_range(kind: str, **bounds: dict[str, str]) -> Document:
    return {"metadata": {"namespace": "default"}, "spec": {"limits": [{"type": kind, **bounds}]}}


def only(found: Wanted, resource: str = "cpu") -> Amount:
    return found["c"][resource]


@pytest.mark.parametrize(
    ("requests", "limits", "policy", "expected"),
    [
        # The ratio of limit to request stays.
        ({"cpu": "200m"}, {"cpu": "400m"}, {}, Amount(500, 1000)),
        ({"cpu": "300m"}, {"cpu": "400m"}, {}, Amount(500, 667)),
        # Equal stays equal, so a Guaranteed pod stays one; without a request the limit is requested.
        ({"cpu": "200m"}, {"cpu": "200m"}, {}, Amount(500, 500)),
        (None, {"cpu": "200m"}, {}, Amount(500, 500)),
        ({"cpu": "200m"}, None, {}, Amount(500, None)),
        (None, None, {}, Amount(500, None)),
        # Requests only: below the limit.
        ({"cpu": "200m"}, {"cpu": "400m"}, {"controlledValues": "RequestsOnly"}, Amount(400, 400)),
        ({"cpu": "200m"}, {"cpu": "4"}, {"controlledValues": "RequestsOnly"}, Amount(500, 4000)),
        # The bounds of the policy that is there now, not of the one at the time of the recommendation.
        ({"cpu": "200m"}, None, {"maxAllowed": {"cpu": "300m"}}, Amount(300, None)),
        ({"cpu": "200m"}, {"cpu": "400m"}, {"minAllowed": {"cpu": "1"}}, Amount(1000, 2000)),
    ],
)
def test_amounts_by_policy(
    requests: dict[str, str] | None, limits: dict[str, str] | None, policy: dict[str, Any], expected: Amount
) -> None:
    assert only(recommended_pods.wanted(autoscaler({"cpu": "500m"}, **policy), pod(requests, limits))) == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"max": {"cpu": "800m"}}, Amount(400, 800)),
        ({"min": {"cpu": "600m"}}, Amount(600, 1000)),
        ({"min": {"cpu": "100m"}, "max": {"cpu": "4"}}, Amount(500, 1000)),
    ],
)
def test_limit_ranges_of_containers_bound_the_amounts(bounds: dict[str, Any], expected: Amount) -> None:
    found = recommended_pods.wanted(
        autoscaler({"cpu": "500m"}), pod({"cpu": "200m"}, {"cpu": "400m"}), [limit_range("Container", **bounds)]
    )
    assert only(found) == expected


@pytest.mark.parametrize(
    ("requests", "limits", "target", "policy", "expected"),
    [
        # What is rounded up would be above the ratio.
        ("1", "1500m", "333m", {}, Amount(333, 499)),
        ("200m", "200m", "500m", {}, Amount(500, 500)),
        # A lower request would be above it, too.
        ("1", "1500m", "333m", {"controlledValues": "RequestsOnly"}, Amount(1000, 1500)),
        ("1", "1500m", "1200m", {"controlledValues": "RequestsOnly"}, Amount(1200, 1500)),
    ],
)
def test_the_greatest_ratio_of_a_limit_range_holds(
    requests: str, limits: str, target: str, policy: dict[str, Any], expected: Amount
) -> None:
    """Otherwise the changed pod would be refused, and its workload would have none."""
    made, ranges = (
        pod({"cpu": requests}, {"cpu": limits}),
        [limit_range("Container", maxLimitRequestRatio={"cpu": "1.5"})],
    )
    found = recommended_pods.wanted(autoscaler({"cpu": target}, **policy), made, ranges)
    assert (only(found) if found else recommended_pods.present(made["spec"]["containers"][0], "cpu")) == expected


def test_a_limit_of_whole_pods_prevents_a_change() -> None:
    given, made = autoscaler({"cpu": "500m"}), pod({"cpu": "200m"}, {"cpu": "400m"})
    assert recommended_pods.wanted(given, made, [limit_range("Pod", max={"cpu": "1"})])
    assert not recommended_pods.wanted(given, made, [limit_range("Pod", max={"cpu": "900m"})])
    assert not recommended_pods.wanted(given, made, [limit_range("Pod", min={"cpu": "600m"})])
    assert recommended_pods.wanted(given, made, [limit_range("Pod", maxLimitRequestRatio={"cpu": "2"})])
    assert not recommended_pods.wanted(given, made, [limit_range("Pod", maxLimitRequestRatio={"cpu": "1.9"})])


def test_what_is_off_or_not_controlled_is_left() -> None:
    made = pod({"cpu": "200m", "memory": "1Gi"})
    both = {"cpu": "500m", "memory": str(2 * GI)}
    assert not recommended_pods.wanted(autoscaler(both), pod(both)), "they are the same already"
    assert set(recommended_pods.wanted(autoscaler(both, controlledResources=["memory"]), made)["c"]) == {"memory"}
    off = autoscaler(both)
    off["spec"]["resourcePolicy"] = {"containerPolicies": [{"containerName": "c", "mode": "Off"}]}
    assert not recommended_pods.wanted(off, made)
    batch = pod({"rota.dev/batch-cpu": "200", "rota.dev/batch-memory": "1"})
    assert not recommended_pods.wanted(autoscaler(both), batch)
    whole = pod({"cpu": "200m"})
    whole["spec"]["resources"] = {"requests": {"cpu": "1"}}
    assert not recommended_pods.wanted(autoscaler(both), whole)


def test_new_resources_keep_what_is_not_controlled() -> None:
    made = pod({"cpu": "200m", "nvidia.com/gpu": "1"}, {"cpu": "400m", "nvidia.com/gpu": "1"})
    changes = recommended_pods.wanted(autoscaler({"cpu": "500m", "memory": "1000"}), made)
    assert list(recommended_pods.changed_containers(made, changes)) == [
        (
            0,
            {
                "requests": {"cpu": "500m", "nvidia.com/gpu": "1", "memory": "1000"},
                "limits": {"cpu": "1000m", "nvidia.com/gpu": "1"},
            },
        )
    ]


def test_the_oldest_autoscaler_counts_and_a_foreign_pod_has_none() -> None:
    younger = autoscaler({"cpu": "1"}, name="a")
    younger["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    older = autoscaler({"cpu": "2"}, name="b")
    assert recommended_pods.of([younger, older], pod(None)) is older
    assert recommended_pods.of([younger, older], make_pod("bare")) is None
