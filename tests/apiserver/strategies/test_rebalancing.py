"""Validation of the rebalance policy, and how it is printed."""

from typing import Any

import pytest

from rota.api import drifts
from rota.apiserver.strategies import rebalancing
from rota.scheduler.rebalancing import policies
from rota.scheduler.rebalancing.rebalance_plan import Settings, Strategy
from rota.testing.api import ApiServer

POLICIES = "/apis/rota.dev/v1alpha1/rebalancepolicies"


def policy(name: str = "cluster", **spec: Any) -> dict[str, Any]:
    return {"kind": "RebalancePolicy", "metadata": {"name": name}, "spec": spec}


def test_what_may_be_named_is_what_there_is() -> None:
    assert list(drifts.DRIFTS) == [one.value for one in Strategy]
    assert rebalancing.NAME == policies.NAME


async def test_a_policy_that_says_nothing_is_the_usual_one(api: ApiServer) -> None:
    answer = await api.post(POLICIES, policy())
    assert answer.code == 201
    assert answer.json["metadata"]["generation"] == 1
    assert policies.settings_of(answer.json) == Settings()


async def test_what_a_policy_says_is_what_is_done(api: ApiServer) -> None:
    said: dict[str, Any] = {
        "strategies": ["compact"],
        "by": "usage",
        "emptyBelow": 30,
        "mostPerHour": 7,
        "priorityBelow": 5,
        "jobs": True,
    }
    answer = await api.post(POLICIES, policy(**said))
    assert policies.settings_of(answer.json) == Settings(
        strategies=(Strategy.COMPACT,), by_usage=True, empty_below=0.3, most_per_hour=7, priority_below=5, jobs=True
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"strategies": ["chaos"]}, "spec.strategies[0]"),
        ({"strategies": ["taints", "taints"]}, "spec.strategies[1]"),
        ({"strategies": ["balance", "compact"]}, "spec.strategies"),
        ({"emptyBelow": 80}, "spec.emptyBelow"),
        ({"fullAbove": 101}, "spec.fullAbove"),
        ({"intervalSeconds": 0}, "spec.intervalSeconds"),
        ({"mostPerNode": -1}, "spec.mostPerNode"),
        ({"mostPerHour": 100_000}, "spec.mostPerHour"),
        ({"by": "feeling"}, "spec.by"),
        ({"youngestSeconds": -1}, "spec.youngestSeconds"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_its_place(api: ApiServer, spec: Any, field: str) -> None:
    answer = await api.post(POLICIES, policy(**spec))
    assert answer.code == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


async def test_there_is_one_policy(api: ApiServer) -> None:
    answer = await api.post(POLICIES, policy("another"))
    assert answer.code == 422
    assert "a cluster has one policy, named cluster" in answer.json["message"]


async def test_a_table_tells_what_came_of_it(api: ApiServer) -> None:
    await api.post(POLICIES, policy(dryRun=True))
    table = (await api.get(POLICIES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
    row = dict(zip((column["name"] for column in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (row["Name"], row["Mode"], row["Last Run"], row["Moved"]) == ("cluster", "DryRun", "<none>", 0)
