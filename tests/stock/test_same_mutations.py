"""The same MutatingAdmissionPolicies on the stock server and on ours: equal objects, verdicts and messages.

All policies of a server are made before the first request is tried: each is bound to the namespace of its case.
"""

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.client.transports.transport import Transport
from rota.testing.differential import cases, normal
from rota.testing.differential.cases import Request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_POLICIES, _BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
_MAPS = "/api/v1/namespaces/$ns/configmaps"
_PODS = "/api/v1/namespaces/$ns/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
_SCALERS = "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers"
_PATIENCE_S = 120.0
_MERGE = "application/merge-patch+json"
#: A name that a server has made.
_MADE = re.compile(r"\bmade-\w{5}\b")
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}


def rule(group: str, version: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources), "operations": ["*"]}


def _map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


_SPEC = {
    "containers": [{"name": "c", "image": "i"}],
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 0,
}
_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": _SPEC}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC},
    },
}
#: Parameters are of a kind that the stock server caches all the time: other caches stop for good with the last policy.
PARAMS = Request(
    method="POST",
    path="/api/v1/namespaces/$ns/resourcequotas",
    body={"metadata": {"name": "params", "labels": {"param": "yes"}, "annotations": {"most": "2"}}, "spec": {}},
)
MAPS = (
    Request(method="POST", path=_MAPS, body=_map("one", a="1")),
    Request(method="POST", path=_MAPS, body=_map("empty")),
    Request(method="POST", path=_MAPS, body={"metadata": {"generateName": "made-"}, "data": {"a": "1"}}),
    Request(method="PATCH", path=f"{_MAPS}/one", body={"data": {"x": "y"}}, content_type=_MERGE),
    Request(method="PUT", path=f"{_MAPS}/one", body=_map("one", {"a": "b"}, a="2"), query={"fieldManager": "put"}),
    Request(path=f"{_MAPS}/one"),
    Request(method="DELETE", path=f"{_MAPS}/one"),
)
PODS = (
    Request(method="POST", path=_PODS, body=_POD),
    Request(path=f"{_PODS}/p"),
    Request(
        method="POST",
        path=f"{_PODS}/p/binding",
        body={
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": "nowhere"},
        },
    ),
    Request(path=f"{_PODS}/p"),
)
WORKLOADS = (
    Request(method="POST", path=_DEPLOYMENTS, body=_DEPLOYMENT),
    Request(
        method="PUT",
        path=f"{_DEPLOYMENTS}/d/scale",
        query={"fieldManager": "put"},
        body={"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}},
    ),
    Request(method="PATCH", path=f"{_DEPLOYMENTS}/d/status", body={"status": {"replicas": 1}}, content_type=_MERGE),
    Request(path=f"{_DEPLOYMENTS}/d"),
)
SCALERS = (
    Request(
        method="POST",
        path=_SCALERS,
        body={
            "metadata": {"name": "h"},
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            },
        },
    ),
)


def applying(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patching(*operations: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(operations)}]"}}


def add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: '{path}', value: {value}}}"


LABEL = applying("Object{metadata: Object.metadata{labels: Object.metadata.labels{seen: 'yes'}}}")
#: Not idempotent: it shows how often it ran.
GROWING = patching(
    "JSONPatch{op: 'add', path: '/data/grown', value: (has(object.data.grown) ? object.data.grown : '') + 'x'}"
)


@dataclass(frozen=True)
class Case:
    mutations: Sequence[Mapping[str, Any]]
    spec: Mapping[str, Any] = field(default_factory=dict)
    bound: Mapping[str, Any] = field(default_factory=dict)
    requests: Sequence[Request] = MAPS
    rules: Sequence[Mapping[str, Any]] = (RULE,)
    #: A second policy: they run in no certain order on the stock server, so it must not matter.
    second: Sequence[Mapping[str, Any]] = ()


def of_pods(*mutations: Mapping[str, Any], requests: Sequence[Request] = PODS[:1]) -> Case:
    return Case(mutations, rules=(rule("", "v1", "pods"),), requests=requests)


def of_deployments(*mutations: Mapping[str, Any], requests: Sequence[Request] = WORKLOADS) -> Case:
    return Case(mutations, rules=(rule("apps", "v1", "deployments"),), requests=requests)


CASES: dict[str, Case] = {
    "apply": Case([LABEL]),
    "apply nothing": Case([applying("Object{}")]),
    "apply a map": Case([applying("Object{data: {'a': '9', 'b': string(object.metadata.name)}}")]),
    "apply from the object": Case([applying("Object{data: object.data}")]),
    "apply optionally": Case([applying("Object{data: {?'b': object.?data.a}, ?immutable: optional.none()}")]),
    "apply with a condition": Case([applying("has(object.data.a) ? Object{data: {'b': '1'}} : Object{}")]),
    "apply an unknown field": Case([applying("Object{nothing: 1}")]),
    "apply a wrong type": Case([applying("Object{data: 'x'}")]),
    "apply a wrong scalar": Case([applying("Object{data: {'x': 1}}")]),
    "apply with a wrong name": Case([applying("Object{metadata: Object.spec{labels: {'a': 'b'}}}")]),
    "apply with an error": Case([applying("Object{data: {'b': object.data.nothing}}")]),
    "apply with an ignored error": Case(
        [LABEL, applying("Object{data: {'b': object.data.nothing}}")], {"failurePolicy": "Ignore"}
    ),
    "apply with an invalid result": Case([applying("Object{metadata: Object.metadata{labels: {'-': '-'}}}")]),
    "containers": of_pods(
        applying(
            "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 'x', "
            "restartPolicy: 'Always'}], containers: object.spec.containers.map(c, Object.spec.containers{"
            "name: c.name, env: [Object.spec.containers.env{name: 'A', value: c.image}]})}}"
        ),
        requests=PODS[:2],
    ),
    "atomic list": of_pods(
        applying("Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'k', operator: 'Exists'}]}}")
    ),
    "atomic list in a list": of_pods(
        applying("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}")
    ),
    "atomic map": of_pods(applying("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}")),
    "element without its key": of_pods(
        applying("Object{spec: Object.spec{containers: [Object.spec.containers{image: 'x'}]}}")
    ),
    "template": of_deployments(
        applying(
            "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{"
            "annotations: {'a': 'b'}}}, replicas: object.spec.replicas + 1}}"
        )
    ),
    "scale": Case(
        [patching("JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}")],
        rules=(rule("apps", "v1", "deployments/scale"),),
        requests=WORKLOADS,
    ),
    "status": Case(
        [applying("Object{status: Object.status{replicas: 5, updatedReplicas: 2}}")],
        rules=(rule("apps", "v1", "deployments/status"),),
        requests=WORKLOADS,
    ),
    "exact version": Case(
        [LABEL],
        {
            "matchConstraints": {
                "matchPolicy": "Exact",
                "resourceRules": [rule("autoscaling", "v1", "horizontalpodautoscalers")],
            }
        },
        requests=SCALERS,
    ),
    "binding of a pod": Case(
        [patching("JSONPatch{op: 'replace', path: '/target/name', value: 'elsewhere'}")],
        rules=(rule("", "v1", "pods/binding"),),
        requests=PODS,
    ),
    "patch": Case([patching(add("/data/b", "'1'"), "JSONPatch{op: 'remove', path: '/data/a'}")]),
    "patch labels": Case([patching(add("/metadata/labels", "{'seen': 'yes'}"))]),
    "patch an escaped key": Case(
        [LABEL, patching("JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'd'}")]
    ),
    "patch with an object": of_pods(
        patching(add("/spec/containers/-", "Object.spec.containers{name: 'more', image: 'x'}")), requests=PODS[:2]
    ),
    "patch with values": of_deployments(
        patching(
            add("/spec/replicas", "2"),
            add("/spec/paused", "true"),
            add("/spec/template/spec/tolerations", "[{'key': 'x', 'operator': 'Exists'}]"),
            add("/metadata/annotations", "{'time': timestamp('2020-01-01T00:00:00Z')}"),
        ),
        requests=WORKLOADS[:1],
    ),
    "patch moves and copies": Case(
        [
            patching(
                "JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}",
                "JSONPatch{op: 'move', from: '/data/b', path: '/data/c'}",
            )
        ],
        requests=MAPS[:1],
    ),
    "patch with a test": Case(
        [patching("JSONPatch{op: 'test', path: '/data/a', value: '1'}", add("/data/tested", "'yes'"))]
    ),
    "patch nothing": Case([patching("JSONPatch{op: 'test', path: '/kind', value: 'ConfigMap'}")]),
    "patch an unknown field": Case([patching(add("/nothing", "1"))]),
    "patch a wrong type": Case([patching(add("/data", "'x'"))]),
    "patch with an unknown operation": Case([patching("JSONPatch{op: 'strange', path: '/data'}")]),
    "patch the name": Case([patching("JSONPatch{op: 'replace', path: '/metadata/namespace', value: 'other'}")]),
    "both": Case([LABEL, patching(add("/metadata/labels/more", "object.metadata.labels.seen"))]),
    "variables": Case(
        [patching(add("/data/one", "variables.one")), patching(add("/data/two", "variables.one + variables.two"))],
        {
            "variables": [
                {"name": "one", "expression": "string(object.data.size())"},
                {"name": "two", "expression": "variables.one + '!'"},
            ]
        },
    ),
    "failing variable": Case(
        [applying("Object{data: {'b': variables.x}}")], {"variables": [{"name": "x", "expression": "object.nothing"}]}
    ),
    "request and namespace": Case(
        [
            applying(
                "Object{data: {'by': request.operation + request.resource.resource + namespaceObject.metadata.name}}"
            )
        ]
    ),
    "old object": Case([applying("oldObject == null ? Object{} : Object{data: {'old': oldObject.data.a}}")]),
    "authorizer": Case(
        [
            applying(
                "authorizer.group('').resource('pods').namespace('x').check('get').allowed() ? "
                "Object{data: {'b': '1'}} : Object{}"
            )
        ]
    ),
    "match conditions": Case(
        [LABEL], {"matchConditions": [{"name": "has-a", "expression": "has(object.data) && 'a' in object.data"}]}
    ),
    "failing match conditions": Case(
        [LABEL],
        {
            "matchConditions": [
                {"name": "x", "expression": "object.nothing == 1"},
                {"name": "y", "expression": "object.other == 1"},
            ]
        },
    ),
    "failing match condition, ignored": Case(
        [LABEL],
        {"matchConditions": [{"name": "x", "expression": "object.nothing == 1"}], "failurePolicy": "Ignore"},
    ),
    "object selector": Case(
        [LABEL], {"matchConstraints": {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"a": "b"}}}}
    ),
    "all operations": Case([LABEL], rules=({**RULE, "operations": ["*"]},)),
    "parameters": Case(
        [applying("Object{data: {'most': params.metadata.annotations.most}}")],
        {"paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"}},
        {"paramRef": {"name": "params", "parameterNotFoundAction": "Allow"}},
    ),
    "selected parameters": Case(
        [applying("Object{data: {'most': params.metadata.annotations.most}}")],
        {"paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"}},
        {"paramRef": {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Allow"}},
    ),
    "missing parameters": Case(
        [LABEL],
        {"paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"}},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Deny"}},
    ),
    "missing parameters, ignored": Case(
        [LABEL],
        {"paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"}, "failurePolicy": "Ignore"},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Deny"}},
    ),
    "twice if needed": Case([GROWING], {"reinvocationPolicy": "IfNeeded"}),
    "once": Case([GROWING]),
    "two policies": Case([GROWING], {"reinvocationPolicy": "IfNeeded"}, second=[LABEL]),
}


async def test_changes_and_verdicts(servers: tuple[Transport, Transport]) -> None:
    found: list[dict[str, Any]] = []
    for transport in servers:
        async with _in_force(transport, CASES) as names:
            found.append({case: await _tried(transport, names[case], one.requests) for case, one in CASES.items()})
    ours, theirs = found
    wrong = {case: normal.differences(ours[case], theirs[case]) for case in CASES if ours[case] != theirs[case]}
    assert not wrong, "\n".join(f"{case}: {one}" for case, lines in wrong.items() for one in lines)


def _policy(name: str, mutations: Sequence[Mapping[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "mutations": list(mutations),
            "reinvocationPolicy": "Never",
            **spec,
        },
    }


def _binding(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return {"metadata": {"name": name}, "spec": {"policyName": name, "matchResources": within, **spec}}


@contextlib.asynccontextmanager
async def _in_force(transport: Transport, chosen: Mapping[str, Case]) -> AsyncIterator[dict[str, str]]:
    """Policies that the server has read; the names of the cases, which are those of their policies."""
    run = secrets.token_hex(3)
    names = {case: f"m{number}-{run}" for number, case in enumerate(chosen)}
    made: list[str] = []
    try:
        for name in names.values():
            await cases.replies(transport, [PARAMS], namespace=f"{name}-ns")
        for case, name in names.items():
            one = chosen[case]
            spec = {"matchConstraints": {"resourceRules": list(one.rules)}, **one.spec}
            await _bind(transport, name, f"{name}-ns", one.mutations, made, spec=spec, **one.bound)
            if one.second:
                await _bind(transport, f"{name}-2", f"{name}-ns", one.second, made)
        # The last policy was made after all others: when it acts, the others do.
        last = f"last-{run}"
        await cases.replies(transport, [], namespace=f"{last}-ns")
        await _bind(transport, last, f"{last}-ns", [LABEL], made)
        probe = Request(method="POST", path=_MAPS, body=_map("probe"), query={"dryRun": "All"})
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                (reply,) = await cases.sent(transport, [probe], namespace=f"{last}-ns")
                if "seen" in (((reply.body or {}).get("metadata") or {}).get("labels") or {}):
                    break
                await asyncio.sleep(0.1)
        yield names
    finally:
        gone = [
            Request(method="DELETE", path=f"{_REGISTRATION}/{kind}/{n}")
            for n in made
            for kind in (_BINDINGS, _POLICIES)
        ]
        await cases.sent(transport, gone, namespace="default")


async def _bind(
    transport: Transport,
    name: str,
    namespace: str,
    mutations: Sequence[Mapping[str, Any]],
    made: list[str],
    spec: Mapping[str, Any] | None = None,
    **bound: Any,
) -> None:
    made.append(name)
    requests = [
        Request(method="POST", path=f"{_REGISTRATION}/{_POLICIES}", body=_policy(name, mutations, **(spec or {}))),
        Request(method="POST", path=f"{_REGISTRATION}/{_BINDINGS}", body=_binding(name, namespace, **bound)),
    ]
    replies = await cases.sent(transport, requests, namespace=namespace)
    assert [one.code for one in replies] == [201, 201], [(one.body or {}).get("message") for one in replies]


async def _tried(transport: Transport, name: str, requests: Sequence[Request]) -> list[Any]:
    replies = await cases.sent(transport, requests, namespace=f"{name}-ns")
    return [_seen(one.body, one.code, one.warnings, name) for one in replies]


def _seen(body: Any, code: int, warnings: Sequence[str], name: str) -> Any:
    """A reply without the owners of fields, without the empty status of a new object and the ends of names."""
    if code < 300 and isinstance(body, dict):
        (body.get("metadata") or {}).pop("managedFields", None)
        if body.get("kind") == "Pod" or (code == 201 and body.get("kind") != "Status"):
            body.pop("status", None)
    found = normal.form({"code": code, "body": body, "warnings": list(warnings)}, namespace=name)
    return json.loads(_MADE.sub("made-*****", json.dumps(found)))


INVALID: list[dict[str, Any]] = [
    {"mutations": []},
    {"mutations": [{}]},
    {"mutations": [{"patchType": "Other"}]},
    {"mutations": [{"patchType": "JSONPatch"}]},
    {"mutations": [{"patchType": "ApplyConfiguration"}]},
    {"mutations": [{**patching(), **LABEL}]},
    {"mutations": [{**LABEL, **patching(add("/data/a", "'1'"))}]},
    {"mutations": [patching()]},
    {"mutations": [patching("1")]},
    {"mutations": [patching("JSONPatch{op: 1}")]},
    {"mutations": [applying("{}")]},
    {"mutations": [applying("object")]},
    {"mutations": [applying("Object.spec{}")]},
    {"mutations": [applying("Other{}")]},
    {"mutations": [applying("Object{data: {'a': '9', 'b': object.metadata.name}}")]},
    {"mutations": [applying("Object{data: {'a': object.x, 'b': '9', 'c': 1}}")]},
    {"mutations": [patching(add("/data", "['a', object.x, 1]"))]},
    {"mutations": [LABEL], "matchConditions": [{"name": "x", "expression": "object.x"}]},
    {"mutations": [applying(" ")]},
    {"mutations": [applying(" Object{data: {'a': params.x}}")]},
    {"mutations": [applying("Object{data: {'a': variables.x}}")]},
    {"mutations": [LABEL], "variables": [{"name": "x", "expression": "Object{}"}]},
    {"mutations": [LABEL], "variables": [{"name": "x", "expression": "jsonpatch.escapeKey('x')"}]},
    {"mutations": [LABEL], "matchConditions": [{"name": "x", "expression": "variables.x"}]},
    {"mutations": [LABEL], "matchConditions": [{"name": "x", "expression": "'x'"}]},
    {"mutations": [LABEL], "reinvocationPolicy": ""},
    {"mutations": [LABEL], "reinvocationPolicy": "Always"},
    {"mutations": [LABEL], "failurePolicy": "Warn"},
    {"mutations": [LABEL], "matchConstraints": {}},
    {"mutations": [LABEL], "matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE", "DELETE"]}]}},
]
UNBOUND: list[dict[str, Any]] = [
    {},
    {"policyName": "-"},
    {"policyName": "p", "paramRef": {}},
    {"policyName": "p", "paramRef": {"name": "n", "selector": {}, "parameterNotFoundAction": "Allow"}},
    {"policyName": "p", "paramRef": {"name": "n", "parameterNotFoundAction": "Other"}},
    {"policyName": "p", "matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
]


async def test_policies_and_bindings_that_are_refused(servers: tuple[Transport, Transport]) -> None:
    name = f"p-{secrets.token_hex(4)}"
    bodies = [
        *((_POLICIES, _policy(name, **one)) for one in INVALID),
        *((_BINDINGS, {"metadata": {"name": name}, "spec": one}) for one in UNBOUND),
    ]
    requests = [
        Request(method="POST", path=f"{_REGISTRATION}/{kind}", body=body, query={"dryRun": "All"})
        for kind, body in bodies
    ]
    ours, theirs = [
        [(one.code, one.body.get("message")) for one in await cases.sent(transport, requests, namespace="default")]
        for transport in servers
    ]
    wrong = [
        f"{body['spec']}: ours {mine}, theirs {other}"
        for (_, body), mine, other in zip(bodies, ours, theirs, strict=True)
        if mine != other
    ]
    assert not wrong, "\n".join(wrong)
    assert {code for code, _ in ours} == {422}
