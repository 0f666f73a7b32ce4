"""The same webhooks on the stock server and on ours: equal reviews, verdicts, changes, messages and warnings."""

import asyncio
import base64
import contextlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from rota.client.transports.transport import Transport
from rota.testing.differential import cases, normal
from rota.testing.differential.cases import Reply, Request
from rota.testing.webhook_server import Answer, Said, WebhookServer, allow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_MAPS = "/api/v1/namespaces/$ns/configmaps"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
_PODS = "/api/v1/namespaces/$ns/pods"
_PATIENCE_S = 60.0
_MERGE = "application/merge-patch+json"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
KINDS = {
    True: ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    False: ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
}
#: A port in a message.
_MADE = re.compile(r"\bmade-\w{5}\b")
_UNDECODABLE = re.compile(r"(undecodable patch in webhook response: )[^\"]*")
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def _map(name: str = "one", labels: Mapping[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


_TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    },
}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE},
}
_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": _TEMPLATE["spec"]}
_SCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "h"},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
            }
        ],
    },
}

MAPS = (
    Request(method="POST", path=_MAPS, body=_map("small", a="1")),
    Request(method="POST", path=_MAPS, body=_map("dry", a="1"), query={"dryRun": "All", "fieldManager": "me"}),
    Request(method="POST", path=_MAPS, body={"metadata": {"generateName": "made-"}, "data": {"a": "1"}}),
    Request(method="PATCH", path=f"{_MAPS}/small", body={"data": {"x": "y"}}, content_type=_MERGE),
    Request(method="PUT", path=f"{_MAPS}/small", body=_map("small", {"a": "b"}, a="2"), query={"fieldManager": "put"}),
    Request(
        method="PATCH",
        path=f"{_MAPS}/applied",
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"x": "y"}},
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "me", "force": "true"},
    ),
    Request(path=f"{_MAPS}/small"),
    Request(method="DELETE", path=f"{_MAPS}/small", body={"propagationPolicy": "Background"}),
    Request(path=f"{_MAPS}/small"),
    Request(method="DELETE", path=_MAPS, query={"fieldSelector": "metadata.name=applied"}),
)
WORKLOADS = (
    Request(method="POST", path=_DEPLOYMENTS, body=_DEPLOYMENT),
    Request(path=f"{_DEPLOYMENTS}/d"),
    Request(
        method="PUT",
        path=f"{_DEPLOYMENTS}/d/scale",
        query={"fieldManager": "put"},
        body={"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}},
    ),
    Request(method="PATCH", path=f"{_DEPLOYMENTS}/d/scale", body={"spec": {"replicas": 2}}, content_type=_MERGE),
    Request(path=f"{_DEPLOYMENTS}/d/scale"),
    Request(method="PATCH", path=f"{_DEPLOYMENTS}/d/status", body={"status": {"replicas": 1}}, content_type=_MERGE),
    Request(method="DELETE", path=f"{_DEPLOYMENTS}/d"),
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
    Request(
        method="POST",
        path=f"{_PODS}/p/eviction",
        body={"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
    ),
    Request(path=f"{_PODS}/p"),
)


def patching(*operations: Mapping[str, Any]) -> Answer:
    """Change every object."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()

    def answer(review: dict[str, Any]) -> Said:
        if review["request"].get("object") is None:
            return {"allowed": True}
        return {"allowed": True, "patchType": "JSONPatch", "patch": text}

    return answer


def saying(**said: Any) -> Answer:
    return lambda _: said


def refusing(**status: Any) -> Answer:
    return saying(allowed=False, **({"status": status} if status else {}))


def responding(code: int, text: str, content_type: str = "text/plain") -> Answer:
    return lambda _: web.Response(status=code, text=text, content_type=content_type)


def document(**body: Any) -> Answer:
    return lambda _: web.json_response(body)


@dataclass(frozen=True)
class Case:
    answer: Answer = allow
    mutating: bool = False
    hook: Mapping[str, Any] = field(default_factory=dict)
    requests: Sequence[Request] = MAPS
    #: More webhooks of the same configuration.
    more: Sequence[Mapping[str, Any]] = ()


_ADD_LABEL = {"op": "add", "path": "/metadata/labels/seen", "value": "yes"}
_ADD_LABELS = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
_DENY = refusing(message="not here")


ANY: dict[str, Any] = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
CASES: dict[str, Case] = {
    "allow": Case(),
    "allow, mutating": Case(mutating=True),
    "refuse": Case(_DENY),
    "refuse, mutating": Case(_DENY, mutating=True),
    "refuse without explanation": Case(refusing()),
    "refuse with a reason": Case(refusing(reason="Because", code=418)),
    "refuse with details": Case(
        refusing(
            message="no",
            reason="Invalid",
            code=422,
            details={"name": "n", "kind": "k", "causes": [{"reason": "FieldValueInvalid", "message": "m"}]},
        )
    ),
    "refuse with success": Case(refusing(status="Success", code=200, message="fine")),
    "warnings": Case(saying(allowed=True, warnings=["be careful", 'with "quotes"', "be careful"])),
    "warnings of a refusal": Case(saying(allowed=False, warnings=["w"], status={"message": "m"})),
    "audit annotations": Case(saying(allowed=True, auditAnnotations={"key": "value"})),
    "patch": Case(patching(_ADD_LABELS), mutating=True),
    "patch of data": Case(patching({"op": "add", "path": "/data/more", "value": "1"}), mutating=True),
    "patch of nothing": Case(patching(), mutating=True),
    "patch that does not fit": Case(patching({"op": "remove", "path": "/data/none"}), mutating=True),
    "patch with a failed test": Case(patching({"op": "test", "path": "/data/a", "value": "0"}), mutating=True),
    "patch of an unknown field": Case(patching({"op": "add", "path": "/nothing", "value": "1"}), mutating=True),
    "patch with an invalid result": Case(
        patching({"op": "add", "path": "/metadata/labels", "value": {"-": "-"}}), mutating=True
    ),
    "patch of the namespace": Case(
        patching({"op": "replace", "path": "/metadata/namespace", "value": "other"}), mutating=True
    ),
    "patch that makes it immutable": Case(patching({"op": "add", "path": "/immutable", "value": True}), mutating=True),
    "undecodable patch": Case(saying(allowed=True, patchType="JSONPatch", patch="Ww=="), mutating=True),
    "patch of an unknown type": Case(
        saying(allowed=True, patchType="Other", patch=base64.b64encode(json.dumps([_ADD_LABELS]).encode()).decode()),
        mutating=True,
    ),
    "patch without a type": Case(saying(allowed=True, patch="W10="), mutating=True),
    "type without a patch": Case(saying(allowed=True, patchType="JSONPatch"), mutating=True),
    "patch of a validating webhook": Case(patching(_ADD_LABELS)),
    "wrong uid": Case(saying(uid="other", allowed=True)),
    "no response": Case(document(apiVersion="admission.k8s.io/v1", kind="AdmissionReview")),
    "other version": Case(
        lambda review: web.json_response(
            {
                "apiVersion": "admission.k8s.io/v1beta1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": True},
            }
        )
    ),
    "no kind": Case(document(response={"allowed": True})),
    "other kind": Case(document(apiVersion="admission.k8s.io/v1", kind="Other")),
    "empty body": Case(responding(200, "", "application/json")),
    "error": Case(responding(500, "broken\n")),
    "error that is JSON": Case(responding(500, "{}", "application/json")),
    "error with a Status": Case(
        lambda _: web.json_response(
            {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "as said", "code": 409}, status=409
        )
    ),
    "not found": Case(responding(404, "nothing here")),
    "forbidden": Case(responding(403, "go away")),
    "unavailable": Case(responding(503, "")),
    "strange code": Case(responding(418, "teapot")),
    "ignored error": Case(responding(500, "broken"), hook={"failurePolicy": "Ignore"}),
    "ignored lie": Case(saying(uid="other", allowed=False), hook={"failurePolicy": "Ignore"}),
    "ignored error, mutating": Case(responding(500, "broken"), hook={"failurePolicy": "Ignore"}, mutating=True),
    "refusal is not ignored": Case(_DENY, hook={"failurePolicy": "Ignore"}),
    "nothing listens": Case(hook={"clientConfig": {"url": "https://127.0.0.1:1/path/"}}),
    "unknown authority": Case(hook={"caBundle": None}),
    "hanging": Case(lambda _: _never(), hook={"timeoutSeconds": 1}, requests=MAPS[:1]),
    "hanging, ignored": Case(
        lambda _: _never(), hook={"timeoutSeconds": 1, "failurePolicy": "Ignore"}, requests=MAPS[:1]
    ),
    "no service": Case(hook={"clientConfig": {"service": {"namespace": "default", "name": "nothing", "path": "/x"}}}),
    "v1beta1": Case(patching(_ADD_LABELS), hook={"admissionReviewVersions": ["v1beta1", "v1"]}, mutating=True),
    "unknown version first": Case(hook={"admissionReviewVersions": ["v2", "v1"]}),
    "operations": Case(_DENY, hook={"rules": [{**RULE, "operations": ["UPDATE", "DELETE"]}]}),
    "groups": Case(_DENY, hook={"rules": [{**RULE, "apiGroups": ["apps"]}]}),
    "scope": Case(_DENY, hook={"rules": [{**RULE, "scope": "Cluster"}]}),
    "no rules": Case(_DENY, hook={"rules": []}),
    "object selector": Case(_DENY, hook={"objectSelector": {"matchLabels": {"a": "b"}}}),
    "match conditions": Case(
        _DENY,
        hook={
            "matchConditions": [
                {"name": "update", "expression": "request.operation != 'CREATE'"},
                {"name": "name", "expression": "has(request.name) && request.name == 'small'"},
            ]
        },
    ),
    "failing match condition": Case(
        _DENY, hook={"matchConditions": [{"name": "x", "expression": "object.nothing == 1"}]}
    ),
    "failing match conditions": Case(
        _DENY,
        hook={
            "matchConditions": [
                {"name": "x", "expression": "object.nothing == 1"},
                {"name": "y", "expression": "object.other == 1"},
            ]
        },
    ),
    "failing match condition, ignored": Case(
        _DENY,
        hook={"matchConditions": [{"name": "x", "expression": "object.nothing == 1"}], "failurePolicy": "Ignore"},
    ),
    "authorizer in a match condition": Case(
        _DENY,
        hook={
            "matchConditions": [
                {"name": "x", "expression": "!authorizer.group('').resource('pods').check('get').allowed()"}
            ]
        },
    ),
    "workloads": Case(requests=WORKLOADS, hook={"rules": [ANY]}),
    "workloads, mutating": Case(requests=WORKLOADS, hook={"rules": [ANY]}, mutating=True),
    "labels of workloads": Case(patching(_ADD_LABELS), requests=WORKLOADS[:2], hook={"rules": [ANY]}, mutating=True),
    "scale": Case(
        patching({"op": "replace", "path": "/spec/replicas", "value": 7}),
        requests=WORKLOADS,
        hook={"rules": [{**ANY, "resources": ["deployments/scale"]}]},
        mutating=True,
    ),
    "scale refused": Case(_DENY, requests=WORKLOADS, hook={"rules": [{**ANY, "resources": ["deployments/scale"]}]}),
    "status refused": Case(_DENY, requests=WORKLOADS, hook={"rules": [{**ANY, "resources": ["*/status"]}]}),
    "container with defaults": Case(
        patching({"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "more", "image": "x"}}),
        requests=WORKLOADS[:2],
        hook={"rules": [{**ANY, "resources": ["deployments"]}]},
        mutating=True,
    ),
    "wrong type": Case(
        patching({"op": "replace", "path": "/spec/replicas", "value": "many"}),
        requests=WORKLOADS[:2],
        hook={"rules": [{**ANY, "resources": ["deployments"]}]},
        mutating=True,
    ),
    "pods": Case(requests=PODS, hook={"rules": [ANY]}),
    "binding refused": Case(_DENY, requests=PODS, hook={"rules": [{**ANY, "resources": ["pods/binding"]}]}),
    "eviction refused": Case(_DENY, requests=PODS, hook={"rules": [{**ANY, "resources": ["pods/eviction"]}]}),
    "labels by binding": Case(
        patching(_ADD_LABELS), requests=PODS, hook={"rules": [{**ANY, "resources": ["pods/binding"]}]}, mutating=True
    ),
    "another version": Case(
        requests=(
            Request(
                method="POST", path="/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers", body=_SCALER
            ),
        ),
        hook={"rules": [{**ANY, "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]},
    ),
    "another version, exactly": Case(
        _DENY,
        requests=(
            Request(
                method="POST", path="/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers", body=_SCALER
            ),
        ),
        hook={
            "rules": [{**ANY, "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}],
            "matchPolicy": "Exact",
        },
    ),
}  # fmt: skip


async def _never() -> Said:
    await asyncio.sleep(_PATIENCE_S)
    return {"allowed": True}


def _configuration(name: str, *hooks: Mapping[str, Any], mutating: bool) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KINDS[mutating][1],
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }


def _hook(server: WebhookServer, namespace: str, **declared: Any) -> dict[str, Any]:
    client = server.client_config("/ask")
    if "caBundle" in declared:
        client.pop("caBundle")
        declared.pop("caBundle")
    return {
        "name": "first.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [RULE],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        **declared,
    }


async def test_verdicts(servers: tuple[Transport, Transport]) -> None:
    ours, theirs = [await _outcomes(one) for one in servers]
    wrong = []
    for case, chosen in CASES.items():
        (mine, sent), (other, expected) = ours[case], theirs[case]
        for request, one, wanted in zip(chosen.requests, mine, other, strict=True):
            if one != wanted:
                wrong.append(f"{case}: {request}: ours {one}, theirs {wanted}")
        wrong += [f"{case}: {line}" for line in normal.differences(sent, expected)]
    assert not wrong, "\n".join(wrong)
    assert all(theirs[case][1] for case in ("allow", "scale", "pods", "another version"))


async def _outcomes(transport: Transport) -> dict[str, tuple[list[Any], list[Any]]]:
    """The replies of a server and the reviews that it sent, by case.

    Every case has a namespace and a webhook of its own, so the server reads all configurations only once.
    """
    run = secrets.token_hex(4)
    namespaces = {case: f"w-{run}-{number}" for number, case in enumerate(CASES)}
    async with contextlib.AsyncExitStack() as stack:
        hooks = {}
        for case, namespace in namespaces.items():
            await cases.replies(transport, [], namespace=namespace)
            server = hooks[case] = await stack.enter_async_context(WebhookServer())
            chosen = CASES[case]
            server.answer = chosen.answer
            declared = [_hook(server, namespace, **one) for one in (chosen.hook, *chosen.more)]
            await _register(transport, _configuration(namespace, *declared, mutating=chosen.mutating), namespace)
        for mutating in (True, False):
            await _in_force(transport, f"w-{run}-0", mutating=mutating)
        for server in hooks.values():
            server.reviews.clear()

        async def tried(case: str) -> tuple[list[Any], list[Any]]:
            namespace, server = namespaces[case], hooks[case]
            replies, reviews = [], []
            for one in CASES[case].requests:
                server.reviews.clear()
                replies.append(_seen(await _once(transport, one, namespace)))
                reviews += [_review(review, namespace) for review in _last_attempts(server.reviews)]
            return replies, reviews

        found = {}
        for case in CASES:
            found[case] = await tried(case)
        for case, namespace in namespaces.items():
            await _remove(transport, namespace, mutating=CASES[case].mutating, namespace=namespace)
        return found


def _last_attempts(reviews: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reviews of one request that count: a server that began from an old copy of an object tries again."""

    def revision(review: dict[str, Any]) -> str:
        return str(((review["request"].get("oldObject") or {}).get("metadata") or {}).get("resourceVersion", ""))

    newest = {review["request"].get("name"): revision(review) for review in reviews}
    return [review for review in reviews if revision(review) == newest[review["request"].get("name")]]


async def _register(transport: Transport, configuration: dict[str, Any], namespace: str) -> None:
    path = f"{_REGISTRATION}/{KINDS[configuration['kind'] == KINDS[True][1]][0]}"
    made = await _once(transport, Request(method="POST", path=path, body=configuration), namespace)
    assert made.code == 201, made


async def _in_force(transport: Transport, namespace: str, *, mutating: bool) -> None:
    """Wait until the server has read all configurations: one that was made after them refuses a name."""
    name = f"0-{secrets.token_hex(4)}"
    async with WebhookServer() as server:
        server.answer = refusing(message=name)
        hook = _hook(server, namespace, name="sentinel.example.com", objectSelector={"matchLabels": {"probe": name}})
        await _register(transport, _configuration(name, hook, mutating=mutating), namespace)
        probe = Request(method="POST", path=_MAPS, body=_map(name, {"probe": name}), query={"dryRun": "All"})
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                reply = await _once(transport, probe, namespace)
                if name in str((reply.body or {}).get("message", "")):
                    break
                await asyncio.sleep(0.1)
        await _remove(transport, name, mutating=mutating, namespace=namespace)


async def _remove(transport: Transport, name: str, *, mutating: bool, namespace: str) -> None:
    await _once(transport, Request(method="DELETE", path=f"{_REGISTRATION}/{KINDS[mutating][0]}/{name}"), namespace)


async def _once(transport: Transport, request: Request, namespace: str) -> Reply:
    (reply,) = await cases.sent(transport, [request], namespace=namespace)
    return reply


def _seen(reply: Reply) -> Any:
    body = reply.body or {}
    if reply.code >= 300:
        told = _PORT.sub("HOST", json.dumps([body.get("reason"), body.get("message"), body.get("details")]))
        return reply.code, _MADE.sub("made-*****", _UNDECODABLE.sub(r"\1...", told)), list(reply.warnings)
    if body.get("kind") in {"ConfigMap", "Scale"}:
        kept = {name: body["metadata"].get(name) for name in ("labels", "name", "namespace")}
        return reply.code, kept, body.get("data"), body.get("spec"), body.get("immutable"), list(reply.warnings)
    if body.get("kind") == "Deployment":
        containers = body["spec"]["template"]["spec"]["containers"]
        return reply.code, body["metadata"].get("labels"), body["spec"]["replicas"], containers, list(reply.warnings)
    if body.get("kind") == "Pod":
        return reply.code, body["metadata"].get("labels"), list(reply.warnings)
    return reply.code, list(reply.warnings)


def _review(review: dict[str, Any], namespace: str) -> Any:
    """A review without what differs from run to run, and without the user."""
    request = {**review["request"], "userInfo": None}
    replaced = request["operation"] == "UPDATE" and request["options"].get("fieldManager") == "put"
    for name in ("object", "oldObject"):
        if request.get(name):
            request[name] = _comparable(request[name], replaced=replaced and name == "object")
    if str(request.get("name", "")).startswith("made-"):
        request["name"] = "made-*****"
    return normal.form({**review, "request": request}, namespace=namespace)


def _comparable(obj: dict[str, Any], *, replaced: bool) -> dict[str, Any]:
    """An object without managed fields, whose order differs; and without what only our server fills in so early.

    Go writes empty statuses.
    """
    given_later = ("uid", "creationTimestamp", "resourceVersion") if replaced else ()
    metadata = {
        name: item for name, item in obj.get("metadata", {}).items() if name not in ("managedFields", *given_later)
    }
    if obj.get("kind") == "HorizontalPodAutoscaler" or not obj.get("status") or (replaced and obj["kind"] == "Scale"):
        obj = {name: item for name, item in obj.items() if name != "status"}
    return {**obj, "metadata": metadata} if "metadata" in obj else obj


_GOOD: dict[str, Any] = {
    "name": "a.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [RULE],
}
_SERVICE = {"name": "s", "namespace": "n"}
INVALID: list[dict[str, Any]] = [
    {"name": "short"},
    {"sideEffects": None},
    {"sideEffects": "Some"},
    {"timeoutSeconds": 31},
    {"failurePolicy": "Other"},
    {"matchPolicy": "Other"},
    {"reinvocationPolicy": "Other"},
    {"admissionReviewVersions": []},
    {"admissionReviewVersions": ["v2"]},
    {"admissionReviewVersions": ["v1", "v1", "V1"]},
    {"clientConfig": {}},
    {"clientConfig": {"url": "https://a/", "service": _SERVICE}},
    {"clientConfig": {"url": "http://a:1/"}},
    {"clientConfig": {"url": "https://user@a:1/x?y=z#f"}},
    {"clientConfig": {"url": "/path"}},
    {"clientConfig": {"service": {"name": "", "namespace": ""}}},
    {"clientConfig": {"service": {**_SERVICE, "port": 70000}}},
    {"clientConfig": {"service": {**_SERVICE, "path": "no"}}},
    {"clientConfig": {"service": {**_SERVICE, "path": "/a//B/"}}},
    {"clientConfig": {"service": {**_SERVICE, "path": "//"}}},
    {"rules": [{**RULE, "operations": ["*", "CREATE"]}]},
    {"rules": [{**RULE, "operations": ["READ"]}]},
    {"rules": [{**RULE, "scope": "Other"}]},
    {"matchConditions": [{"name": "", "expression": ""}]},
    {"matchConditions": [{"name": "a b", "expression": "1"}]},
    {"matchConditions": [{"name": "x", "expression": "object.x +"}]},
    {"matchConditions": [{"name": "x", "expression": "params.x == 1"}]},
    {"matchConditions": [{"name": "x", "expression": "variables.x"}]},
    {"matchConditions": [{"name": "x", "expression": "true"}, {"name": "x", "expression": "true"}]},
    {"matchConditions": [{"name": f"x{number}", "expression": "true"} for number in range(65)]},
    {"objectSelector": {"matchLabels": {"-": "-"}}},
]


async def test_configurations_that_are_refused(servers: tuple[Transport, Transport]) -> None:
    wrong = []
    for declared in INVALID:
        hook = {name: item for name, item in {**_GOOD, **declared}.items() if item is not None}
        request = Request(
            method="POST",
            path=f"{_REGISTRATION}/{KINDS[True][0]}",
            body=_configuration("invalid", hook, mutating=True),
            query={"dryRun": "All"},
        )
        ours, theirs = [await _once(one, request, "default") for one in servers]
        assert theirs.code == 422, (declared, theirs)
        if (ours.code, ours.body.get("message")) != (theirs.code, theirs.body.get("message")):
            wrong.append(f"{declared}: ours {ours.body.get('message')}, theirs {theirs.body.get('message')}")
    assert not wrong, "\n".join(wrong)
