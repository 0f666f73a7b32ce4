"""Pod Security admission; `tests/stock/test_same_pod_security.py` compares random pods with the stock server."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

LABEL = "pod-security.kubernetes.io/"
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}


def _pod(name: str, *, context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "securityContext": context or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def _labelled(api: ApiServer, **labels: str) -> str:
    body = {
        "metadata": {"name": "shop", "labels": {LABEL + key.replace("_", "-"): value for key, value in labels.items()}}
    }
    answer = await api.post("/api/v1/namespaces", body)
    assert answer.code == 201, answer
    return "/api/v1/namespaces/shop/pods"


async def test_the_enforced_level_refuses_pods() -> None:
    async with ApiServer() as api:
        pods = await _labelled(api, enforce="restricted")
        refused = await api.post(pods, _pod("open"))
        assert refused.code == 403
        assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in refused.json["message"]
        assert (await api.post(pods, _pod("closed", context=RESTRICTED))).code == 201


async def test_a_stricter_label_is_in_force_for_repeated_pods() -> None:
    async with ApiServer() as api:
        pods = await _labelled(api)
        assert [(await api.post(pods, _pod(f"before-{one}"))).code for one in range(5)] == [201] * 5
        label = {"metadata": {"labels": {f"{LABEL}enforce": "restricted"}}}
        changed = await api.patch("/api/v1/namespaces/shop", label)
        assert changed.code == 200
        assert any("before-0 (and 4 other pods): allowPrivilegeEscalation" in one for one in changed.warnings)
        assert [(await api.post(pods, _pod(f"after-{one}"))).code for one in range(3)] == [403] * 3


async def test_other_modes_only_report() -> None:
    async with ApiServer() as api:
        pods = await _labelled(api, warn="baseline", audit="restricted")
        answer = await api.post(pods, _pod("open", hostPID=True))
        assert answer.code == 201
        (warning,) = (one for one in answer.warnings if "would violate PodSecurity" in one)
        assert "baseline:latest" in warning
        assert "host namespaces (hostPID=true)" in warning


async def test_a_version_pins_the_checks() -> None:
    sysctls = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}
    for version, code in (("v1.31", 403), ("v1.32", 201)):
        async with ApiServer() as api:
            pods = await _labelled(api, enforce="baseline", enforce_version=version)
            assert (await api.post(pods, _pod("p", **sysctls))).code == code


@pytest.mark.parametrize(("name", "value"), [("enforce", "other"), ("warn-version", "1.2")])
async def test_wrong_labels_are_refused(name: str, value: str) -> None:
    async with ApiServer() as api:
        answer = await api.post("/api/v1/namespaces", {"metadata": {"name": "x", "labels": {LABEL + name: value}}})
        assert answer.code == 422
        assert LABEL + name in answer.json["message"]
