"""A batch of objects has the result of single requests."""

import json
from typing import Any

import pytest

from rota.testing.api import ApiServer

PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def _made(api: ApiServer, *objects: Any, path: str = PODS, **query: object) -> list[dict[str, Any]]:
    answer = await api.post(path, {"items": list(objects)}, batch="true", **query)
    assert answer.code == 201, answer
    found: list[dict[str, Any]] = answer.json["verdicts"]
    assert len(found) == len(objects)
    return found


def _codes(verdicts: list[dict[str, Any]]) -> list[int]:
    return [one["status"]["code"] for one in verdicts]


def _but_for_itself(obj: dict[str, Any]) -> Any:
    text = json.dumps(obj).replace(obj["metadata"]["uid"], "UID")
    obj = json.loads(text)
    for name in ("name", "resourceVersion", "creationTimestamp"):
        del obj["metadata"][name]
    for owner in obj["metadata"]["managedFields"]:
        del owner["time"]
    return obj


async def test_they_are_as_if_each_had_come_alone(api: ApiServer) -> None:
    single = [(await api.post(PODS, _pod(f"s{number}"))).json for number in range(4)]
    verdicts = await _made(api, *(_pod(f"b{number}") for number in range(150)))
    assert set(_codes(verdicts)) == {201}
    assert [one["name"] for one in verdicts] == [f"b{number}" for number in range(150)]
    assert len({one["uid"] for one in verdicts}) == 150
    for number in (0, 1, 2, 70, 149):
        found = (await api.get(f"{PODS}/b{number}")).json
        assert found["metadata"]["uid"] == verdicts[number]["uid"]
        assert found["metadata"]["resourceVersion"] == verdicts[number]["resourceVersion"]
        assert _but_for_itself(found) == _but_for_itself(single[3])


async def test_each_is_refused_for_itself(api: ApiServer) -> None:
    for number in range(3):  # a template that is known
        await api.post(PODS, _pod(f"known{number}"))
    wrong = _pod("wrong")
    wrong["spec"]["containers"] = []
    elsewhere = _pod("elsewhere", namespace="another")
    verdicts = await _made(api, _pod("a"), _pod("known1"), wrong, _pod("b"), elsewhere, _pod("b"), _pod("Odd!"), 7)
    assert _codes(verdicts) == [201, 409, 422, 201, 400, 409, 422, 400]
    assert verdicts[1]["status"]["reason"] == "AlreadyExists"
    assert (await api.get(f"{PODS}/a")).code == (await api.get(f"{PODS}/b")).code == 200


async def test_one_that_is_no_text_spoils_none_of_the_others(api: ApiServer) -> None:
    good, bad = json.dumps(_pod("a")).encode(), json.dumps(_pod("B")).encode().replace(b'"B"', b'"\xff"')
    answer = await api.post(PODS, b'{"items":[%b,%b]}' % (bad, good), batch="true")
    assert answer.code == 201, answer
    assert _codes(answer.json["verdicts"]) == [400, 201]


async def test_names_may_be_made_for_them(api: ApiServer) -> None:
    unnamed = _pod("")
    unnamed["metadata"] = {"generateName": "p-"}
    verdicts = await _made(api, *[unnamed] * 5)
    assert set(_codes(verdicts)) == {201}
    assert len({one["name"] for one in verdicts}) == 5


async def test_quotas_are_kept_to_the_last(api: ApiServer) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "7"}}}
    assert (await api.post("/api/v1/namespaces/default/resourcequotas", quota)).code == 201
    verdicts = await _made(api, *(_pod(f"p{number}") for number in range(20)))
    assert sorted(_codes(verdicts)) == [201] * 7 + [403] * 13
    assert len((await api.get(PODS)).json["items"]) == 7


async def test_bulk_creation_needs_the_right_to_create(api: ApiServer) -> None:
    answer = await api.acting_as("somebody").post(PODS, {"items": [_pod("a")]}, batch="true")
    assert answer.code == 403
    node = api.acting_as("system:node:n1", "system:nodes")
    assert _codes(await _made(node, _pod("a"), _pod("b"))) == [403, 403], "a node creates mirror pods only"


async def test_other_kinds_are_created_as_well(api: ApiServer) -> None:
    maps = [{"metadata": {"name": f"m{number}"}, "data": {"a": str(number)}} for number in range(10)]
    verdicts = await _made(api, *maps, path="/api/v1/namespaces/default/configmaps")
    assert set(_codes(verdicts)) == {201}
    assert (await api.get("/api/v1/namespaces/default/configmaps/m7")).json["data"] == {"a": "7"}


async def test_watchers_see_each_of_them_once(api: ApiServer) -> None:
    version = (await api.get(PODS)).json["metadata"]["resourceVersion"]
    async with api.watch(PODS, resourceVersion=version) as events:
        await _made(api, *(_pod(f"p{number}") for number in range(100)))
        seen = await events.take(100)
        assert [one["type"] for one in seen] == ["ADDED"] * 100
        assert {one["object"]["metadata"]["name"] for one in seen} == {f"p{number}" for number in range(100)}
        assert not events.pending()


async def test_a_dry_run_creates_nothing(api: ApiServer) -> None:
    assert _codes(await _made(api, _pod("a"), _pod("b"), dryRun="All")) == [201, 201]
    assert not (await api.get(PODS)).json["items"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"items": [_pod("a")]}, 400),
        ({"kind": "PodList", "items": [_pod("a")]}, 400),
    ],
)
async def test_bulk_creation_needs_the_batch_parameter(api: ApiServer, body: dict[str, Any], code: int) -> None:
    assert (await api.post(PODS, body)).code in {code, 422}
    assert not (await api.get(PODS)).json["items"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "ServiceList", "items": []}, 400),
        ({"kind": "PodList"}, 400),
        ({"items": "none"}, 400),
        ({"items": [_pod(f"p{number}") for number in range(1025)]}, 422),
        ({"kind": "PodList", "items": []}, 201),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused_as_a_whole(api: ApiServer, body: Any, code: int) -> None:
    assert (await api.post(PODS, body, batch="true")).code == code
    assert not (await api.get(PODS)).json["items"]
