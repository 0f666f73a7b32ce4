"""Pods whose service account does not exist are refused, whether or not one like them was let in before."""

from typing import Any

from rota.testing.api import ApiServer

SPACE = "/api/v1/namespaces/default"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    content = {"containers": [{"name": "c", "image": "x"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": content}


async def test_a_pod_whose_account_does_not_exist_is_refused_as_stock_does(api: ApiServer) -> None:
    refused = await api.post(f"{SPACE}/pods", pod("p", serviceAccountName="nobody"))
    assert (refused.code, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["message"] == (
        'pods "p" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found'
    )
    assert (await api.post(f"{SPACE}/pods", pod("q", serviceAccount="nobody"))).code == 403
    await api.post(f"{SPACE}/serviceaccounts", {"metadata": {"name": "nobody"}})
    assert (await api.post(f"{SPACE}/pods", pod("p", serviceAccountName="nobody"))).code == 201


async def test_the_default_account_need_not_be_there_yet(api: ApiServer) -> None:
    made = await api.post(f"{SPACE}/pods", pod("p"))
    assert made.json["spec"]["serviceAccountName"] == "default"
    assert (await api.post(f"{SPACE}/pods", pod("q", serviceAccountName="default"))).code == 201


async def test_pods_like_one_that_was_let_in_are_refused_once_the_account_is_gone(api: ApiServer) -> None:
    await api.post(f"{SPACE}/serviceaccounts", {"metadata": {"name": "robot"}})
    before = [
        (await api.post(f"{SPACE}/pods", pod(f"p{number}", serviceAccountName="robot"))).code for number in (0, 1, 2)
    ]
    assert before == [201, 201, 201]
    await api.delete(f"{SPACE}/serviceaccounts/robot")
    after = [
        (await api.post(f"{SPACE}/pods", pod(f"q{number}", serviceAccountName="robot"))).code for number in (0, 1, 2)
    ]
    assert after == [403, 403, 403]


async def test_a_changed_account_is_still_an_account(api: ApiServer) -> None:
    await api.post(f"{SPACE}/serviceaccounts", {"metadata": {"name": "robot"}})
    assert (await api.post(f"{SPACE}/pods", pod("p0", serviceAccountName="robot"))).code == 201
    await api.patch(f"{SPACE}/serviceaccounts/robot", {"metadata": {"labels": {"a": "b"}}})
    assert (await api.post(f"{SPACE}/pods", pod("p1", serviceAccountName="robot"))).code == 201
