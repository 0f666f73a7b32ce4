"""ValidatingAdmissionPolicies in the server; `tests/stock/test_same_policies.py` compares with the stock server."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def _rule(resource: str, *operations: str) -> dict[str, Any]:
    return {"apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": list(operations)}


async def _enforce(api: ApiServer, expression: str, *rules: dict[str, Any], action: str = "Deny", **spec: Any) -> None:
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}], **spec}
    answer = await api.post(POLICIES, {"metadata": {"name": "p"}, "spec": policy})
    assert answer.code == 201, answer
    bound = {"policyName": "p", "validationActions": [action]}
    answer = await api.post(BINDINGS, {"metadata": {"name": "b"}, "spec": bound})
    assert answer.code == 201, answer


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_a_policy_refuses_with_the_next_request_and_no_longer_without_its_binding() -> None:
    async with ApiServer() as api:
        await _enforce(api, "object.data.size() < 2", _rule("configmaps", "CREATE"))
        assert (await api.post(MAPS, _map("small", a="1"))).code == 201
        refused = await api.post(MAPS, _map("large", a="1", b="2"))
        assert refused.code == 422
        assert refused.json["reason"] == "Invalid"
        assert (
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression"
            in refused.json["message"]
        )
        assert (await api.delete(f"{BINDINGS}/b")).code == 200
        assert (await api.post(MAPS, _map("large", a="1", b="2"))).code == 201


async def test_deletions_are_guarded_and_policies_do_not_guard_themselves() -> None:
    async with ApiServer() as api:
        assert (await api.post(MAPS, _map("kept"))).code == 201
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
        await _enforce(api, "request.operation != 'DELETE'", everything)
        assert (await api.delete(f"{MAPS}/kept")).code == 422
        assert (await api.delete(f"{BINDINGS}/b")).code == 200
        assert (await api.delete(f"{MAPS}/kept")).code == 200


async def test_repeated_pods_are_admitted_each() -> None:
    async with ApiServer() as api:
        for number in range(5):
            assert (await api.post(PODS, _pod(f"free-{number}"))).code == 201
        await _enforce(api, "object.metadata.name.endsWith('1')", _rule("pods", "CREATE"))
        codes = [(await api.post(PODS, _pod(f"held-{number}"))).code for number in range(3)]
        assert codes == [422, 201, 422]


async def test_warnings_and_ignored_failures() -> None:
    async with ApiServer() as api:
        await _enforce(api, "has(object.data)", _rule("configmaps", "CREATE"), action="Warn")
        answer = await api.post(MAPS, {"metadata": {"name": "empty"}})
        assert answer.code == 201
        assert any("Validation failed for ValidatingAdmissionPolicy 'p'" in one for one in answer.warnings)
    async with ApiServer() as api:
        await _enforce(api, "object.nothing == 1", _rule("configmaps", "CREATE"), failurePolicy="Ignore")
        assert (await api.post(MAPS, _map("x"))).code == 201


async def test_the_authorizer_answers_for_the_user_of_the_request() -> None:
    async with ApiServer() as api:
        allowed = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
        await _enforce(api, allowed, _rule("configmaps", "CREATE"))
        assert (await api.post(MAPS, _map("administrator"))).code == 201
        account = "authorizer.serviceAccount('default', 'nobody').path('/x').check('get').allowed()"
        changed = {"spec": {"validations": [{"expression": account}]}}
        assert (await api.patch(f"{POLICIES}/p", changed)).code == 200
        assert (await api.post(MAPS, _map("account"))).code == 422


async def test_policies_see_connections_bindings_and_evictions() -> None:
    pods = "/api/v1/namespaces/default/pods"
    async with ApiServer(conflict_check=False) as api:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await api.post(pods, pod)).code == 201
        what = {**_rule("pods/exec", "CONNECT"), "operations": ["CONNECT", "CREATE"]}
        what["resources"] = ["pods/exec", "pods/binding", "pods/eviction"]
        await _enforce(api, "request.operation == 'CONNECT' ? object.command != ['rm'] : object.kind == 'Other'", what)
        refused = await api.post(f"{pods}/p/exec", b"", command="rm")
        assert (refused.code, "denied request" in refused.json["message"]) == (422, True)
        assert "denied request" not in (await api.post(f"{pods}/p/exec", b"", command="ls")).json["message"]
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        assert (await api.post(f"{pods}/p/binding", binding)).code == 422
        assert (await api.post(f"{pods}/p/eviction", {"metadata": {"name": "p"}})).code == 422


@pytest.mark.parametrize("cost", ["[1, 2, 3].map(x, lists.range(900000).size()).size() == 3"])
async def test_an_expensive_expression_ends_with_an_error(cost: str) -> None:
    async with ApiServer() as api:
        await _enforce(api, cost, _rule("configmaps", "CREATE"))
        answer = await api.post(MAPS, _map("x"))
        assert answer.code == 422
        assert "running out of cost budget" in answer.json["message"]
