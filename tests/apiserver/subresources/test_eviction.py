import asyncio
from typing import Any

import pytest
from tests.apiserver.subresources.harness import make_pod

from rota.testing.api import Answer, ApiServer

_PODS = "/api/v1/namespaces/default/pods"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_READY = [{"type": "Ready", "status": "True"}]


async def _running(api: ApiServer, *names: str, ready: bool = True) -> None:
    for name in names:
        assert (await api.post(_PODS, make_pod(name, labels={"app": "web"}))).code == 201
        status = {"phase": "Running", "conditions": _READY if ready else []}
        assert (await api.patch(f"{_PODS}/{name}/status", {"status": status})).code == 200


async def _budget(api: ApiServer, name: str = "web", *, observed: int = 1, policy: str = "", **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    assert (await api.post(_BUDGETS, {"metadata": {"name": name}, "spec": spec})).code == 201
    full = {"expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, **status}
    body = {"status": {**full, "observedGeneration": observed}}
    assert (await api.patch(f"{_BUDGETS}/{name}/status", body)).code == 200


async def _evict(api: ApiServer, name: str, options: dict[str, Any] | None = None, **query: object) -> Answer:
    body = {"metadata": {"name": name}, **({"deleteOptions": options} if options else {})}
    return await api.post(f"{_PODS}/{name}/eviction", body, **query)


async def _exists(api: ApiServer, name: str) -> bool:
    return (await api.get(f"{_PODS}/{name}")).code == 200


async def test_a_pod_without_a_budget_is_deleted(api: ApiServer) -> None:
    await _running(api, "a")
    answer = await _evict(api, "a")
    assert (answer.code, answer.json["status"]) == (201, "Success")
    assert not await _exists(api, "a")


async def test_another_name_in_the_body_is_a_bad_request(api: ApiServer) -> None:
    answer = await api.post(f"{_PODS}/a/eviction", {"metadata": {"name": "b"}})
    assert (answer.code, answer.json["message"]) == (400, "name in URL does not match name in Eviction object")
    assert (await _evict(api, "a")).code == 404


async def test_a_budget_with_nothing_to_give_says_not_now(api: ApiServer) -> None:
    await _running(api, "a")
    await _budget(api, currentHealthy=1, desiredHealthy=1)
    answer = await _evict(api, "a")
    assert (answer.code, answer.json["reason"]) == (429, "TooManyRequests")
    assert answer.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.json["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods and has 1 currently"}
    ]
    assert await _exists(api, "a")


async def test_an_unprocessed_budget_asks_for_a_retry_in_ten_seconds(api: ApiServer) -> None:
    await _running(api, "a")
    await _budget(api, observed=0, disruptionsAllowed=1)
    answer = await _evict(api, "a")
    assert answer.code == 429
    assert answer.headers["retry-after"] == "10"
    assert answer.json["details"]["causes"][0]["message"] == (
        "The disruption budget web is still being processed by the server."
    )


async def test_a_disruption_is_taken_from_the_budget_with_the_pod(api: ApiServer) -> None:
    await _running(api, "a", "b")
    await _budget(api, disruptionsAllowed=1)
    assert (await _evict(api, "a")).code == 201
    status = (await api.get(f"{_BUDGETS}/web")).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]
    assert status["conditions"][0]["reason"] == "InsufficientPods"
    assert (await _evict(api, "b")).code == 429


async def test_evictions_at_once_do_not_share_a_disruption(api: ApiServer) -> None:
    names = [f"p{number}" for number in range(8)]
    await _running(api, *names)
    await _budget(api, disruptionsAllowed=3)
    answers = await asyncio.gather(*(_evict(api, name) for name in names))
    assert sorted(answer.code for answer in answers) == [201] * 3 + [429] * 5
    left = [name for name in names if await _exists(api, name)]
    assert len(left) == 5


async def test_a_pod_on_a_node_is_marked_and_says_why(api: ApiServer) -> None:
    await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"capacity": {"pods": "10"}}})
    await api.post(_PODS, make_pod("a", node="n1"))
    assert (await _evict(api, "a", {"gracePeriodSeconds": 7})).code == 201
    pod = (await api.get(f"{_PODS}/a")).json
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_run_needs_no_budget(api: ApiServer, phase: str) -> None:
    await _running(api, "a")
    await _budget(api)
    await api.patch(f"{_PODS}/a/status", {"status": {"phase": phase}})
    assert (await _evict(api, "a")).code == 201


@pytest.mark.parametrize(
    ("policy", "healthy", "code"), [("AlwaysAllow", 0, 201), ("", 1, 201), ("IfHealthyBudget", 0, 429)]
)
async def test_an_unhealthy_pod_goes_if_its_budget_lets_it(
    api: ApiServer, policy: str, healthy: int, code: int
) -> None:
    await _running(api, "a", ready=False)
    await _budget(api, policy=policy, currentHealthy=healthy)
    assert (await _evict(api, "a")).code == code


async def test_two_budgets_are_one_too_many(api: ApiServer) -> None:
    await _running(api, "a")
    await _budget(api, "one", disruptionsAllowed=1)
    await _budget(api, "two", disruptionsAllowed=1)
    answer = await _evict(api, "a")
    assert (answer.code, answer.json["message"]) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )


@pytest.mark.parametrize("where", ["query", "body"])
async def test_a_dry_run_evicts_no_pod_and_charges_nothing(api: ApiServer, where: str) -> None:
    await _running(api, "a")
    await _budget(api, disruptionsAllowed=1)
    if where == "query":
        assert (await _evict(api, "a", dryRun="All")).code == 201
    else:
        assert (await _evict(api, "a", {"dryRun": ["All"]})).code == 201
    assert await _exists(api, "a")
    assert (await api.get(f"{_BUDGETS}/web")).json["status"]["disruptionsAllowed"] == 1


async def test_an_eviction_of_another_pod_of_that_name_is_a_conflict(api: ApiServer) -> None:
    await _running(api, "a")
    answer = await _evict(api, "a", {"preconditions": {"uid": "other"}})
    assert answer.code == 409
    assert "the UID in the precondition (other) does not match the UID in record" in answer.json["message"]
