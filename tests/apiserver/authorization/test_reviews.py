"""SubjectAccessReview and its relatives predict what would happen."""

from typing import Any

import pytest

from rota.testing import access
from rota.testing.access import rule
from rota.testing.api import ApiServer

_PATH = "/apis/authorization.k8s.io/v1"
_SELF = f"{_PATH}/selfsubjectaccessreviews"
_ANYBODY = f"{_PATH}/subjectaccessreviews"


def _resource(verb: str, resource: str, **more: str) -> dict[str, Any]:
    return {"resourceAttributes": {"verb": verb, "resource": resource, **more}}


async def test_a_review_says_yes_with_the_reason_and_no_without_one(api: ApiServer) -> None:
    await access.grant(api, "x", rule("list", "pods"), namespace="default")
    x = api.acting_as("x")
    answer = await x.post(_SELF, {"spec": _resource("list", "pods", namespace="default")})
    assert answer.code == 201
    assert answer.json["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "x-for-x/default" of Role "for-x" to User "x"',
    }
    answer = await x.post(_SELF, {"spec": _resource("delete", "pods", namespace="default")})
    assert answer.json["status"] == {"allowed": False}
    paths = {"spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    assert (await x.post(_SELF, paths)).json["status"] == {"allowed": False}


async def test_a_review_of_another_user_needs_the_permission(api: ApiServer) -> None:
    spec = {**_resource("get", "nodes"), "user": "x", "groups": ["system:monitoring"]}
    assert (await api.acting_as("x").post(_ANYBODY, {"spec": spec})).code == 403
    assert (await api.post(_ANYBODY, {"spec": spec})).json["status"] == {"allowed": False}
    spec = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}, "groups": ["system:monitoring"]}
    status = (await api.post(_ANYBODY, {"spec": spec})).json["status"]
    assert status["allowed"]
    assert status["reason"].endswith('ClusterRole "system:monitoring" to Group "system:monitoring"')
    await access.bind(api, "judge", "system:auth-delegator")
    assert (await api.acting_as("judge").post(_ANYBODY, {"spec": spec})).code == 201


async def test_a_local_review_is_about_its_namespace(api: ApiServer) -> None:
    path = f"{_PATH}/namespaces/default/localsubjectaccessreviews"
    await access.bind(api, "owner", "admin", namespace="default")
    owner = api.acting_as("owner")
    review = {
        "metadata": {"namespace": "default"},
        "spec": {**_resource("get", "pods", namespace="default"), "user": "y"},
    }
    assert (await owner.post(path, review)).json["status"] == {"allowed": False}
    review["spec"]["user"] = "owner"
    assert (await owner.post(path, review)).json["status"]["allowed"]
    review["spec"]["resourceAttributes"]["namespace"] = "kube-system"
    answer = await owner.post(path, review)
    assert answer.code == 422
    assert "must match metadata.namespace" in answer.json["message"]


@pytest.mark.parametrize(
    ("path", "spec", "message"),
    [
        (_SELF, {}, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        (
            _SELF,
            {**_resource("get", "pods"), "nonResourceAttributes": {"path": "/", "verb": "get"}},
            "cannot be specified in combination with resourceAttributes",
        ),
        (_ANYBODY, _resource("get", "pods"), "at least one of user or group must be specified"),
    ],
)
async def test_a_review_that_asks_nothing_is_invalid(
    api: ApiServer, path: str, spec: dict[str, Any], message: str
) -> None:
    answer = await api.post(path, {"spec": spec})
    assert answer.code == 422
    assert message in answer.json["message"]


async def test_a_rules_review_lists_all_rules_in_a_namespace(api: ApiServer) -> None:
    rules = f"{_PATH}/selfsubjectrulesreviews"
    await access.grant(api, "x", rule("get", "configmaps", resourceNames=["a"]), namespace="default")
    x = api.acting_as("x")
    status = (await x.post(rules, {"spec": {"namespace": "default"}})).json["status"]
    assert status["incomplete"] is False
    own = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}
    assert own in status["resourceRules"]
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in status[
        "resourceRules"
    ]
    assert any("/api/*" in one["nonResourceURLs"] for one in status["nonResourceRules"])
    elsewhere = (await x.post(rules, {"spec": {"namespace": "kube-system"}})).json["status"]
    assert own not in elsewhere["resourceRules"]
    assert (await x.post(rules, {"spec": {}})).json["message"] == "no namespace on request"


async def test_the_rules_of_a_node_are_incomplete(api: ApiServer) -> None:
    node = api.acting_as("system:node:n", "system:nodes")
    status = (await node.post(f"{_PATH}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})).json["status"]
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        ({"rawSelector": "spec.nodeName=n"}, True),
        ({"rawSelector": "spec.nodeName=n,status.phase=Running"}, True),
        ({"rawSelector": "spec.nodeName=m"}, False),
        ({"rawSelector": "spec.nodeName!=n"}, False),
        ({"rawSelector": "no selector"}, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n"]}]}, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n", "m"]}]}, False),
    ],
)
async def test_a_review_minds_what_a_list_is_limited_to(
    api: ApiServer, selector: dict[str, Any], allowed: bool
) -> None:
    asked = {"verb": "list", "resource": "pods", "fieldSelector": selector}
    spec = {"user": "system:node:n", "groups": ["system:nodes"], "resourceAttributes": asked}
    answer = await api.post(_ANYBODY, {"spec": spec})
    assert answer.code == 201, answer
    assert answer.json["status"]["allowed"] is allowed


async def test_a_review_is_kept_nowhere(api: ApiServer) -> None:
    before = (await api.store.revision_range()).revision
    assert (await api.post(_SELF, {"spec": _resource("get", "pods")})).code == 201
    assert (await api.get(_SELF)).code == 405
    assert (await api.store.revision_range()).revision == before


async def test_a_list_of_rights_repeats_nothing(api: ApiServer) -> None:
    await access.grant(api, "x", rule("get,list", "pods"), namespace="default")
    await access.bind(api, "x", "view", namespace="default")
    await access.bind(api, "x", "edit", namespace="default")
    status = (
        await api.acting_as("x").post(f"{_PATH}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    ).json["status"]
    paths = [path for one in status["nonResourceRules"] for path in one["nonResourceURLs"]]
    assert paths
    assert len(paths) == len(set(paths))
    rows = [
        (group, resource, tuple(one.get("resourceNames") or ()), tuple(sorted(one["verbs"])))
        for one in status["resourceRules"]
        for group in one["apiGroups"]
        for resource in one["resources"]
    ]
    assert len(rows) == len(set(rows))
    verbs = {verb for _, resource, _, given in rows for verb in given if resource == "pods"}
    assert {"get", "list", "create", "delete"} <= verbs
