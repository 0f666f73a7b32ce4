"""Pods that are created from a template equal those that took the usual path."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import scheme, users
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import AdmissionFingerprint, Attributes
from rota.apiserver.registry.create_templates import CreateTemplateCache
from rota.testing.api import ApiServer

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]},
    }


def _but_for_itself(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        name: item
        for name, item in obj["metadata"].items()
        if name not in {"name", "uid", "resourceVersion", "creationTimestamp"}
    }
    for owner in metadata["managedFields"]:
        del owner["time"]
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize(
    "metadata",
    [{}, {"labels": {"app": "web", "name": "web"}, "annotations": {"note": '{"name":"p0"}'}}, {"namespace": "default"}],
)
async def test_later_copies_of_a_pod_equal_the_first(
    api: ApiServer, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, filled = CreateTemplateCache.fill_template, list[bytes]()

    def noted(self: CreateTemplateCache, *args: Any, **more: Any) -> bytes | None:
        found = fill(self, *args, **more)
        filled.extend([found] if found is not None else [])
        return found

    monkeypatch.setattr(CreateTemplateCache, "fill_template", noted)
    answers = [await api.post(PODS, pod(f"p{number}", **metadata)) for number in range(5)]
    assert [answer.code for answer in answers] == [201] * 5
    assert len(filled) == 3  # the first is looked at, and so is the second, from which the others are filled
    assert len({answer.json["metadata"]["uid"] for answer in answers}) == 5
    assert [answer.json["metadata"]["name"] for answer in answers] == [f"p{number}" for number in range(5)]
    first, *others = [_but_for_itself(answer.json) for answer in answers]
    assert all(other == first for other in others)
    assert (await api.get(f"{PODS}/p4")).json == answers[4].json


async def test_a_copy_with_a_name_that_is_taken_is_refused(api: ApiServer) -> None:
    for number in range(4):
        await api.post(PODS, pod(f"p{number}"))
    answer = await api.post(PODS, pod("p1"))
    assert (answer.code, answer.json["reason"]) == (409, "AlreadyExists")


async def test_rules_that_come_later_count_for_copies_too(api: ApiServer) -> None:
    for number in range(4):
        await api.post(PODS, pod(f"p{number}"))
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {**urgent, "value": 7, "globalDefault": True})
    assert (await api.post(PODS, pod("with-class"))).json["spec"]["priority"] == 7
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}
    small = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    await api.post("/api/v1/namespaces/default/limitranges", small)
    limited = (await api.post(PODS, pod("with-limit"))).json
    assert limited["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    none = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    await api.post("/api/v1/namespaces/default/resourcequotas", none)
    assert (await api.post(PODS, pod("beyond-quota"))).code == 403


async def test_copies_stay_out_of_a_namespace_that_goes(api: ApiServer) -> None:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going", "finalizers": ["example.com/wait"]}}
    await api.post("/api/v1/namespaces", made)
    there = "/api/v1/namespaces/going/pods"
    assert [(await api.post(there, pod(f"p{number}"))).code for number in range(4)] == [201] * 4
    await api.delete("/api/v1/namespaces/going")
    assert (await api.post(there, pod("late"))).code == 403


async def test_fields_ignored_once_are_warned_of_under_stricter_validation(api: ApiServer) -> None:
    body = pod("p") | {"unknown": 1}
    for number in range(4):
        body["metadata"] = {"name": f"p{number}"}
        assert not (await api.post(f"{PODS}?fieldValidation=Ignore", body)).headers.get("warning")
    body["metadata"] = {"name": "strict"}
    assert (await api.post(f"{PODS}?fieldValidation=Strict", body)).code == 400


async def test_gated_pods_tell_their_own_times(api: ApiServer) -> None:
    gated = pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    for number in range(4):
        gated["metadata"] = {"name": f"p{number}"}
        made = (await api.post(PODS, gated)).json
        assert made["status"]["conditions"][0]["lastTransitionTime"] == made["metadata"]["creationTimestamp"]


# --- what may be remembered at all ----------------------------------------------------------------------------------


def _at(**changes: Any) -> Attributes:
    resource = scheme.builtin().preferred(GroupResource("", "pods"))
    assert resource is not None
    about = {"user": users.ADMINISTRATOR, "verb": "create", "resource": resource, "now": 0.0, "namespace": "default"}
    return Attributes(**{**about, **changes})


FINGERPRINT = AdmissionFingerprint((), 0)
STORED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"containers": [{"name": "c"}]},
}


def _remembered(body: bytes, stored: dict[str, Any]) -> bool:
    create_templates = CreateTemplateCache()
    create_template = create_templates.create_template(_at(), body, "application/json")
    if create_template is None:
        return False
    for _ in range(2):
        create_templates.learn(create_template, FINGERPRINT, json.dumps(stored, separators=(",", ":")).encode())
    return create_templates.fill_template(create_template, FINGERPRINT, uid="u-2", now=0.0) is not None


def test_only_the_name_of_the_object_itself_may_differ() -> None:
    assert _remembered(b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}', STORED)
    assert not _remembered(b'{"spec":{"containers":[{"name":"c"}]},"metadata":{"name":"p"}}', STORED)
    assert not _remembered(b'{"metadata":{"labels":{"name":"p"},"name":"p"}}', STORED)
    assert not _remembered(b'{"metadata":{"name":"p","name":"p"}}', STORED)
    assert not _remembered(b'{"metadata":{"name":"P"}}', STORED)
    assert not _remembered(b'{"metadata":{"generateName":"p-"},"spec":{"containers":[{"name":"c"}]}}', STORED)
    assert not _remembered(b'no JSON: "name":"p"', STORED)


def test_pods_that_have_a_node_or_tell_their_time_elsewhere_are_not_remembered() -> None:
    body = b'{"metadata":{"name":"p"}}'
    assert not _remembered(body, STORED | {"spec": {"nodeName": "n"}})
    assert not _remembered(body, STORED | {"status": {"since": "2026-01-01T00:00:00Z"}})
    assert not _remembered(body, STORED | {"status": {"self": "u-1"}})


def test_another_standing_namespace_or_manager_is_another_matter() -> None:
    create_templates = CreateTemplateCache()
    body = b'{"metadata":{"name":"p"}}'
    create_template = create_templates.create_template(_at(), body, "application/json")
    assert create_template is not None
    for _ in range(2):
        create_templates.learn(create_template, FINGERPRINT, json.dumps(STORED, separators=(",", ":")).encode())
    assert create_templates.fill_template(create_template, AdmissionFingerprint((), 1), uid="u", now=0.0) is None
    for other in (_at(namespace="other"), _at(field_manager="other")):
        elsewhere = create_templates.create_template(other, body, "application/json")
        assert elsewhere is not None
        assert create_templates.fill_template(elsewhere, FINGERPRINT, uid="u", now=0.0) is None


@given(name=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), text=st.text(max_size=20))
def test_whatever_is_around_the_name_stays_as_it_is(name: str, text: str) -> None:
    create_templates = CreateTemplateCache()
    stored = json.loads(json.dumps(STORED | {"status": {"message": text}}))
    body = json.dumps({"metadata": {"name": "p", "annotations": {"a": text}}}).replace('"name": ', '"name":').encode()
    create_template = create_templates.create_template(_at(), body, "application/json")
    assert create_template is not None
    value = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode()
    for _ in range(2):
        create_templates.learn(create_template, FINGERPRINT, value)
    other = create_templates.create_template(
        _at(), body.replace(b'"name":"p"', f'"name":"{name}"'.encode()), "application/json"
    )
    assert other is not None
    made = create_templates.fill_template(other, FINGERPRINT, uid="u-2", now=1.0)
    if made is not None:
        metadata = {"name": name, "uid": "u-2", "creationTimestamp": "1970-01-01T00:00:01Z"}
        assert json.loads(made) == stored | {"metadata": metadata}
