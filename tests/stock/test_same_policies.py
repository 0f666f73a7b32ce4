"""The same ValidatingAdmissionPolicies on the stock server and on ours: equal verdicts, messages and warnings."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from rota.client.transports.transport import Transport
from rota.testing.differential import cases
from rota.testing.differential.cases import Reply, Request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_MAPS = "/api/v1/namespaces/$ns/configmaps"
_PATIENCE_S = 90.0
CONFIG_MAPS = {
    "resourceRules": [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
    ]
}


def _map(name: str = "one", labels: Mapping[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


def _policy(name: str, *validations: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": CONFIG_MAPS, "validations": list(validations), **spec},
    }


def _binding(name: str, *actions: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": list(actions), **spec},
    }


def _within(namespace: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


SMALL = {"expression": "!has(object.data) || object.data.size() < 2"}
#: Policies with the binding's fields, and the objects that are tried. `bad` is what every policy refuses in the end.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "expression": ({"validations": [SMALL]}, {}, ["Deny"]),
    "message": ({"validations": [{**SMALL, "message": " too large ", "reason": "Forbidden"}]}, {}, ["Deny"]),
    "message expression": (
        {
            "validations": [
                {**SMALL, "messageExpression": "object.metadata.name + ' has ' + string(object.data.size())"}
            ]
        },
        {},
        ["Deny"],
    ),
    "failing message expression": (
        {"validations": [{**SMALL, "messageExpression": "string(object.nothing)", "message": "fallback"}]},
        {},
        ["Deny"],
    ),
    "warn": ({"validations": [SMALL]}, {}, ["Warn", "Audit"]),
    "error": ({"validations": [{"expression": "object.nothing.at.all == 1"}]}, {}, ["Deny"]),
    "ignored error": (
        {"validations": [{"expression": "object.nothing == 1"}], "failurePolicy": "Ignore"},
        {},
        ["Deny"],
    ),
    "variables": (
        {
            "variables": [
                {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
                {"name": "limit", "expression": "variables.size > 5 ? 1 : 2"},
            ],
            "validations": [
                {
                    "expression": "variables.size < variables.limit",
                    "messageExpression": "'limit ' + string(variables.limit)",
                }
            ],
        },
        {},
        ["Deny"],
    ),
    "failing variable": (
        {
            "variables": [{"name": "x", "expression": "object.nothing"}],
            "validations": [{"expression": "variables.x == 1"}],
        },
        {},
        ["Deny"],
    ),
    "match conditions": (
        {"matchConditions": [{"name": "not-a", "expression": "!has(object.data.a)"}], "validations": [SMALL]},
        {},
        ["Deny"],
    ),
    "failing match condition": (
        {"matchConditions": [{"name": "x", "expression": "object.nothing == 1"}], "validations": [SMALL]},
        {},
        ["Deny"],
    ),
    "request": (
        {"validations": [{"expression": "request.operation != 'CREATE' || request.resource.resource != 'configmaps'"}]},
        {},
        ["Deny"],
    ),
    "namespace": (
        {"validations": [{"expression": "namespaceObject.metadata.name == 'other'"}]},
        {},
        ["Deny"],
    ),
    "old object": (
        {
            "validations": [
                {"expression": "null in [oldObject, object] || object.data == oldObject.data", "message": "immutable"}
            ]
        },
        {},
        ["Deny"],
    ),
    "object selector": (
        {"matchConstraints": {**CONFIG_MAPS, "objectSelector": {"matchLabels": {"a": "b"}}}, "validations": [SMALL]},
        {},
        ["Deny"],
    ),
    "names": (
        {
            "matchConstraints": {"resourceRules": [{**CONFIG_MAPS["resourceRules"][0], "resourceNames": ["other"]}]},
            "validations": [SMALL],
        },
        {},
        ["Deny"],
    ),
    "excluded": (
        {
            "matchConstraints": {**CONFIG_MAPS, "excludeResourceRules": CONFIG_MAPS["resourceRules"]},
            "validations": [SMALL],
        },
        {},
        ["Deny"],
    ),
    "authorizer": (
        {
            "validations": [
                {"expression": "!authorizer.group('').resource('pods').namespace('x').check('get').allowed()"}
            ]
        },
        {},
        ["Deny"],
    ),
    "parameters": (
        {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                **CONFIG_MAPS,
                "objectSelector": {"matchExpressions": [{"key": "param", "operator": "DoesNotExist"}]},
            },
            "validations": [{"expression": "!has(object.data) || object.data.size() < int(params.data.most)"}],
        },
        {"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
        ["Deny"],
    ),
    "missing parameters": (
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [SMALL]},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Deny"}},
        ["Deny"],
    ),
    "missing parameters allowed": (
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [SMALL]},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Allow"}},
        ["Deny"],
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_verdicts(servers: tuple[Transport, Transport], case: str) -> None:
    spec, bound, actions = CASES[case]
    name = f"p-{secrets.token_hex(4)}"
    found = []
    for transport in servers:
        namespace = f"{name}-ns"
        await cases.replies(transport, [], namespace=namespace)
        await _once(
            transport, Request(method="POST", path=_MAPS, body=_map("limits", {"param": ""}, most="2")), namespace
        )
        made = [
            await _once(transport, Request(method="POST", path=f"{_REGISTRATION}/{kind}", body=body), namespace)
            for kind, body in (
                ("validatingadmissionpolicies", _policy(name, **spec)),
                (
                    "validatingadmissionpolicybindings",
                    _binding(name, *actions, **bound, matchResources=_within(namespace)),
                ),
            )
        ]
        assert [one.code for one in made] == [201, 201], made
        await _in_force(transport, namespace)
        found.append([_seen(one) for one in await _tried(transport, namespace)])
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            await _once(transport, Request(method="DELETE", path=f"{_REGISTRATION}/{kind}/{name}"), namespace)
    for mine, other in zip(*found, strict=True):
        assert mine == other


async def _tried(transport: Transport, namespace: str) -> list[Reply]:
    requests = [
        Request(method="POST", path=_MAPS, body=_map("small", a="1")),
        Request(method="POST", path=_MAPS, body=_map("large", a="1", b="2")),
        Request(method="POST", path=_MAPS, body=_map("labelled", {"a": "b"}, c="1", d="2")),
        Request(
            method="PATCH",
            path=f"{_MAPS}/small",
            body={"data": {"x": "y"}},
            content_type="application/merge-patch+json",
        ),
        Request(method="DELETE", path=f"{_MAPS}/small"),
    ]
    return [await _once(transport, one, namespace) for one in requests]


async def _once(transport: Transport, request: Request, namespace: str) -> Reply:
    (reply,) = await cases.sent(transport, [request], namespace=namespace)
    return reply


def _seen(reply: Reply) -> Any:
    body = reply.body or {}
    if reply.code < 300:
        return reply.code, list(reply.warnings)
    return reply.code, body.get("reason"), body.get("message"), body.get("details"), list(reply.warnings)


async def _in_force(transport: Transport, namespace: str) -> None:
    """Wait until the server has read the policy: a second policy, made after it, refuses a name."""
    name = f"sentinel-{secrets.token_hex(4)}"
    refusing = _policy(name, {"expression": f"object == null || object.metadata.name != '{name}'"})
    for kind, body in (
        ("validatingadmissionpolicies", refusing),
        ("validatingadmissionpolicybindings", _binding(name, "Deny", matchResources=_within(namespace))),
    ):
        await _once(transport, Request(method="POST", path=f"{_REGISTRATION}/{kind}", body=body), namespace)
    probe = Request(method="POST", path=_MAPS, body=_map(name), query={"dryRun": "All"})
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            reply = await _once(transport, probe, namespace)
            if name in str((reply.body or {}).get("message", "")):
                break
            await asyncio.sleep(0.1)
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        await _once(transport, Request(method="DELETE", path=f"{_REGISTRATION}/{kind}/{name}"), namespace)


INVALID: list[dict[str, Any]] = [
    {"validations": [{"expression": "object.x +"}]},
    {"validations": [{"expression": "nothing == 1"}]},
    {"validations": [{"expression": "1"}]},
    {"validations": [{"expression": " "}]},
    {"validations": [{"expression": "params.x == 1"}]},
    {"validations": [{"expression": "request.nothing == 1"}]},
    {"validations": [{"expression": "true", "messageExpression": "1"}]},
    {"validations": [{"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}]},
    {"validations": [{"expression": "true", "message": " "}]},
    {"validations": [{"expression": "true", "reason": "Other"}]},
    {"validations": [{"expression": "variables.x"}], "variables": [{"name": "y", "expression": "1"}]},
    {"validations": [{"expression": "true"}], "variables": [{"name": "a-b", "expression": "1"}]},
    {"validations": [{"expression": "true"}], "matchConditions": [{"name": "x", "expression": "variables.x"}]},
    {"validations": []},
    {"validations": [{"expression": "true"}], "matchConstraints": {}},
    {"auditAnnotations": [{"key": "x", "valueExpression": "1"}], "validations": []},
]


@pytest.mark.parametrize("spec", INVALID, ids=str)
async def test_policies_that_are_refused(servers: tuple[Transport, Transport], spec: dict[str, Any]) -> None:
    body = _policy(f"p-{secrets.token_hex(4)}", **spec)
    request = Request(
        method="POST", path=f"{_REGISTRATION}/validatingadmissionpolicies", body=body, query={"dryRun": "All"}
    )
    found = []
    for transport in servers:
        (reply,) = await cases.replies(transport, [request], namespace=f"case-{secrets.token_hex(4)}")
        found.append((reply.code, reply.body.get("message")))
    assert found[0] == found[1]
    assert found[0][0] == 422
