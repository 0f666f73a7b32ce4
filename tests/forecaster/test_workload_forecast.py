"""`rota forecast workload`: what it shows of a VerticalPodAutoscaler."""

from typing import Any

from rota.cli.commands import workload_forecast

RECOMMENDED = {
    "containerName": "main",
    "lowerBound": {"cpu": "25m", "memory": "262144000"},
    "target": {"cpu": "127m", "memory": "1073741824"},
    "upperBound": {"cpu": "2", "memory": "2147483648"},
}


def autoscaler(target: str, *recommended: dict[str, Any]) -> dict[str, Any]:
    status = {"recommendation": {"containerRecommendations": list(recommended)}} if recommended else {}
    return {"metadata": {"name": f"of-{target}"}, "spec": {"targetRef": {"name": target}}, "status": status}


def test_a_row_for_each_container_and_resource() -> None:
    assert list(workload_forecast.rows(autoscaler("web", RECOMMENDED))) == [
        ("main", "cpu", "25m", "127m", "2"),
        ("main", "memory", "250Mi", "1Gi", "2Gi"),
    ]
    assert list(workload_forecast.rows(autoscaler("web"))) == []


def test_the_autoscaler_is_found_by_its_target() -> None:
    both = [autoscaler("api"), autoscaler("web")]
    found = workload_forecast.named(both, "web")
    assert found is not None
    assert found["metadata"]["name"] == "of-web"
    assert workload_forecast.named(both, "of-web") is None
