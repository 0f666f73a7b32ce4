"""Paths in pods that lead out of their volume, or nowhere in particular."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

PODS = "/api/v1/namespaces/default/pods"


def _pod(volume: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", **container}]}
    if volume:
        spec["volumes"] = [{"name": "v", **volume}]
    return {"metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "..x"])
@pytest.mark.parametrize("kind", ["configMap", "secret", "downwardAPI", "projected", "token"])
async def test_a_path_in_a_volume_stays_in_it(api: ApiServer, kind: str, path: str) -> None:
    item = (
        {"path": path, "fieldRef": {"fieldPath": "metadata.name"}}
        if kind == "downwardAPI"
        else {"key": "k", "path": path}
    )
    volumes: dict[str, dict[str, Any]] = {
        "configMap": {"configMap": {"name": "m", "items": [item]}},
        "secret": {"secret": {"secretName": "m", "items": [item]}},
        "downwardAPI": {"downwardAPI": {"items": [item]}},
        "projected": {"projected": {"sources": [{"configMap": {"name": "m", "items": [item]}}]}},
        "token": {"projected": {"sources": [{"serviceAccountToken": {"path": path}}]}},
    }
    answer = await api.post(PODS, _pod(volumes[kind]))
    assert (answer.code, "path" in answer.json["message"]) == (422, True), answer.body


async def test_a_termination_message_has_an_absolute_path(api: ApiServer) -> None:
    answer = await api.post(PODS, _pod(terminationMessagePath="tm"))
    assert answer.code == 422
    assert "must be an absolute path" in answer.json["message"]
    assert (await api.post(PODS, _pod(terminationMessagePath="/tm"))).code == 201
