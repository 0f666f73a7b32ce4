"""The batch class: which pods are of it, and which of them cannot be kept."""

from typing import Any

from rota.api import reclaimed
from rota.api.reclaimed import BATCH_CPU, BATCH_MEMORY

SOLD = {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"}


def made(*containers: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": one}} for one in containers], **spec}}


def test_a_pod_that_requests_one_of_the_resources_is_of_the_class() -> None:
    assert reclaimed.is_batch(made(SOLD))
    assert reclaimed.is_batch(made({}, {BATCH_MEMORY: "1Gi"}))
    assert not reclaimed.is_batch(made({"cpu": "1"}, {}))
    assert not reclaimed.is_batch({})


def test_a_pod_with_both_resources_in_each_container_is_right() -> None:
    assert reclaimed.problems(made(SOLD, SOLD)) == []
    assert reclaimed.problems(made({"cpu": "1"})) == [], "other pods are none of its business"
    assert reclaimed.container_amount(made(SOLD)["spec"]["containers"][0], BATCH_CPU) == 500


def test_each_mistake_is_named_with_its_field() -> None:
    init = [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]
    found = reclaimed.problems(made(SOLD | {"memory": "1Gi"}, resources={"limits": {"cpu": "2"}}, initContainers=init))
    assert [path for path, _ in found] == [
        "spec.resources",
        "spec.initContainers[0].resources.limits",
        "spec.initContainers[0].resources",
        "spec.containers[0].resources",
    ]
    assert found[3][1] == "memory beside rota.dev/batch-memory: a batch pod requests one of them, so remove the other"
