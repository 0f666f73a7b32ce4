"""The server warns of security contexts that a process does not get, each time."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "securityContext": container}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(
    ("context", "named"),
    [
        ({"privileged": True}, "privileged"),
        ({"readOnlyRootFilesystem": True}, "readOnlyRootFilesystem"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, "capabilities.add"),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, "seccompProfile"),
        ({"seLinuxOptions": {"level": "s0"}}, "seLinuxOptions"),
    ],
)
async def test_each_field_is_named_whenever_it_comes(context: dict[str, Any], named: str) -> None:
    async with ApiServer() as api:
        for name in ("first", "second"):
            answer = await api.post(PODS, _pod(name, context))
            assert answer.code == 201, answer
            (warning,) = answer.warnings
            assert f"spec.containers[0].securityContext.{named}: a process" in warning
            assert "runtimeClassName: container" in warning


async def test_a_container_gets_what_it_asks_for_and_a_process_what_it_has_anyway() -> None:
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsUser": 51234}
    async with ApiServer() as api:
        answer = await api.post(PODS, _pod("process", own))
        assert (answer.code, answer.warnings) == (201, [])
        answer = await api.post(PODS, _pod("container", {"privileged": True}, runtimeClassName="container"))
        assert (answer.code, answer.warnings) == (201, [])


async def test_so_are_those_of_templates_and_of_whole_pods() -> None:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}],
        },
    }
    body = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}}
    path = "/apis/apps/v1/namespaces/default/deployments"
    async with ApiServer() as api:
        answer = await api.post(path, body)
        assert answer.code == 201, answer
        assert len(answer.warnings) == 2
        changed = await api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
        assert (changed.code, changed.warnings) == (200, [])
