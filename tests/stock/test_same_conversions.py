"""The same conversion webhooks on the stock server and on ours: equal objects in every version, and equal failures."""

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from rota.client.transports.transport import Transport
from rota.testing.differential import cases
from rota.testing.differential.cases import Reply, Request
from rota.testing.webhook_server import Answer, Said, WebhookServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_V1, _V2, _V3 = (f"/apis/$group/{one}/namespaces/$ns/addresses" for one in ("v1", "v2", "v3"))
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_PATIENCE_S = 60.0
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GIVEN = ("uid", "creationTimestamp", "resourceVersion", "managedFields")


def _version(name: str, properties: Mapping[str, Any], *, storage: bool = False) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": f".spec.{one}"} for one in properties if one != "ports"],
    }


def _definition(group: str, client: Mapping[str, Any], **webhook: Any) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"addresses.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "addresses", "kind": "Address"},
            "versions": [
                _version("v1", {"hostPort": text}, storage=True),
                _version("v2", {"host": text, "port": {**text, "default": "80"}}),
                _version("v3", {"host": text, "ports": {"type": "array", "items": text}}),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"], **webhook},
            },
        },
    }


def _converted(obj: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    """An address in another version."""
    spec, version = obj.get("spec") or {}, api_version.rpartition("/")[2]
    if "hostPort" in spec:
        host, _, port = spec["hostPort"].partition(":")
    else:
        host, port = spec.get("host", ""), spec.get("port") or (spec.get("ports") or [""])[0]
    if version == "v1":
        return {**obj, "apiVersion": api_version, "spec": {"hostPort": f"{host}:{port}"}}
    ports = {"port": port} if version == "v2" else {"ports": [port]}
    return {**obj, "apiVersion": api_version, "spec": {"host": host, **ports}}


def _good(review: dict[str, Any]) -> Said:
    request = review["request"]
    found = [_converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {"convertedObjects": found, "result": {"status": "Success"}}


def _undeclared(review: dict[str, Any]) -> Said:
    """Convert, and add a field, which the server prunes."""
    found = _good(review)
    assert isinstance(found, dict)
    for one in found["convertedObjects"]:
        one["spec"]["undeclared"] = "x"
    return found


def _changed(**changes: Any) -> Answer:
    """Convert, and change the top level of each object."""

    def answer(review: dict[str, Any]) -> Said:
        found = _good(review)
        assert isinstance(found, dict)
        return {**found, "convertedObjects": [{**one, **changes} for one in found["convertedObjects"]]}

    return answer


def _metadata(change: Callable[[dict[str, Any]], Any]) -> Answer:
    """Convert, and change the metadata of each object."""

    def answer(review: dict[str, Any]) -> Said:
        found = _good(review)
        assert isinstance(found, dict)
        return {
            **found,
            "convertedObjects": [{**one, "metadata": change(one["metadata"])} for one in found["convertedObjects"]],
        }

    return answer


def _saying(**said: Any) -> Answer:
    return lambda _: said


def _responding(code: int, text: str, content_type: str = "text/plain") -> Answer:
    return lambda _: web.Response(status=code, text=text, content_type=content_type)


def _address(name: str, version: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": f"$group/{version}", "kind": "Address", "metadata": metadata, "spec": spec}


def _applied(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"$group/{version}", "kind": "Address", "metadata": {"name": "applied"}, "spec": spec}


#: Before the webhook answers as the case says.
_FIRST = (
    Request(method="POST", path=_V1, body=_address("one", "v1", hostPort="a:1")),
    Request(method="POST", path=_V2, body=_address("two", "v2", host="b", port="2")),
)
_EVERYTHING = (
    Request(path=f"{_V1}/one"),
    Request(path=f"{_V2}/one"),
    Request(path=f"{_V3}/one"),
    Request(path=f"{_V1}/two"),
    Request(method="POST", path=_V2, body=_address("three", "v2", host="c")),
    Request(path=f"{_V1}/three"),
    Request(method="POST", path=_V3, body=_address("four", "v3", host="d", ports=["4", "5"])),
    Request(path=_V2),
    Request(path=_V1, query={"fieldSelector": "spec.hostPort=a:1"}),
    Request(path=_V2, query={"fieldSelector": "spec.host=b"}),
    Request(method="PATCH", path=f"{_V2}/one", body={"spec": {"port": "9"}}, content_type=_MERGE),
    Request(method="PATCH", path=f"{_V3}/one", body={"spec": {"ports": ["7"]}}, content_type=_MERGE),
    Request(method="PATCH", path=f"{_V2}/one/status", body={"status": {"phase": "up"}}, content_type=_MERGE),
    Request(method="PUT", path=f"{_V2}/two", body=_address("two", "v2", host="z", port="3")),
    Request(method="PUT", path=f"{_V2}/two", body=_address("two", "v2", host="y"), query={"dryRun": "All"}),
    Request(path=f"{_V1}/two"),
    Request(
        method="PATCH",
        path=f"{_V1}/applied",
        body=_applied("v1", hostPort="x:1"),
        content_type=_APPLY,
        query={"fieldManager": "first"},
    ),
    Request(
        method="PATCH",
        path=f"{_V2}/applied",
        body=_applied("v2", host="y", port="1"),
        content_type=_APPLY,
        query={"fieldManager": "second"},
    ),
    Request(
        method="PATCH",
        path=f"{_V2}/applied",
        body=_applied("v2", host="y", port="1"),
        content_type=_APPLY,
        query={"fieldManager": "second", "force": "true"},
    ),
    Request(path=f"{_V3}/applied"),
    Request(method="DELETE", path=f"{_V2}/two"),
    Request(path=f"{_V1}/two"),
    Request(method="DELETE", path=_V3, query={"fieldSelector": "metadata.name=one"}),
    Request(path=f"{_V1}/one"),
)
_READS = (Request(path=f"{_V1}/one"), Request(path=f"{_V2}/one"))
_SOME = (
    *_READS,
    Request(method="POST", path=_V2, body=_address("new", "v2", host="c", port="1")),
    Request(path=f"{_V1}/new"),
    Request(method="PATCH", path=f"{_V1}/one", body={"spec": {"hostPort": "b:2"}}, content_type=_MERGE),
    # Not a patch in version 2: a stock server may have converted the object before, and patches that.
)


@dataclass(frozen=True)
class Case:
    answer: Answer = _good
    requests: Sequence[Request] = _SOME
    webhook: Mapping[str, Any] = field(default_factory=dict)
    first: Sequence[Request] = _FIRST


async def _never() -> Said:
    await asyncio.sleep(_PATIENCE_S)
    return {}


CASES: dict[str, Case] = {
    "good": Case(requests=_EVERYTHING),
    "undeclared fields": Case(_undeclared),
    "v1beta1": Case(webhook={"conversionReviewVersions": ["v1beta1", "v1"]}),
    "unknown version first": Case(webhook={"conversionReviewVersions": ["v9", "v1"]}),
    "failure": Case(_saying(result={"status": "Failure", "message": "not today"})),
    "failure without a message": Case(_saying(result={"status": "Failure"})),
    "no result": Case(_saying(convertedObjects=[])),
    "too few": Case(_saying(convertedObjects=[], result={"status": "Success"})),
    "wrong uid": Case(_saying(uid="other", result={"status": "Success"})),
    "no response": Case(
        lambda _: web.json_response({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"})
    ),
    "other kind": Case(lambda _: web.json_response({"apiVersion": "apiextensions.k8s.io/v1", "kind": "Other"})),
    "no kind": Case(lambda _: web.json_response({"response": {}})),
    "other version": Case(
        lambda _: web.json_response({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"})
    ),
    "empty body": Case(_responding(200, "", "application/json")),
    "error": Case(_responding(500, "broken\n")),
    "not found": Case(_responding(404, "nothing here")),
    "other group version": Case(_changed(apiVersion="other.example.com/v1")),
    "other kind of object": Case(_changed(kind="Other")),
    "other name": Case(_metadata(lambda one: {**one, "name": "other"})),
    "other namespace": Case(_metadata(lambda one: {**one, "namespace": "other"})),
    "other object": Case(_metadata(lambda one: {**one, "uid": "other"})),
    "no metadata": Case(_changed(metadata=None)),
    "metadata of another type": Case(_changed(metadata="x")),
    "other labels": Case(_metadata(lambda one: {**one, "labels": {"x": "y"}, "annotations": None})),
    "other finalizers": Case(
        _metadata(lambda one: {**one, "finalizers": ["x/y"], "ownerReferences": [], "generation": 7})
    ),
    "invalid labels": Case(_metadata(lambda one: {**one, "labels": {"-": "-"}})),
    "invalid annotations": Case(_metadata(lambda one: {**one, "annotations": {"-": "-"}})),
    "labels of another type": Case(_metadata(lambda one: {**one, "labels": {"x": 1}})),
    "labels that are no map": Case(_metadata(lambda one: {**one, "labels": ["x"]})),
    "unknown authority": Case(webhook={"caBundle": None}, first=_FIRST[:1]),
    "nothing listens": Case(webhook={"clientConfig": {"url": "https://127.0.0.1:1/path/"}}, first=_FIRST[:1]),
    "no service": Case(
        webhook={"clientConfig": {"service": {"namespace": "default", "name": "nothing", "path": "/x"}}},
        first=_FIRST[:1],
    ),
}  # fmt: skip


async def test_objects(servers: tuple[Transport, Transport]) -> None:
    ours, theirs = [await _outcomes(one) for one in servers]
    wrong = []
    for case, chosen in CASES.items():
        for request, one, wanted in zip((*chosen.first, *chosen.requests), ours[case], theirs[case], strict=True):
            if one != wanted:
                wrong.append(f"{case}: {request.method} {request.path}:\n  ours   {one}\n  theirs {wanted}")
    assert not wrong, "\n".join(wrong)
    codes = {reply[0] for replies in theirs.values() for reply in replies}
    assert {200, 201, 404, 409, 500} <= codes


async def _outcomes(transport: Transport) -> dict[str, list[Any]]:
    """The replies of a server by case. Every case has a kind and a webhook of its own."""
    run = secrets.token_hex(4)
    async with contextlib.AsyncExitStack() as stack:
        hooks: dict[str, WebhookServer] = {}
        for number, (case, chosen) in enumerate(CASES.items()):
            hooks[case] = await stack.enter_async_context(WebhookServer())
            hooks[case].answer = _good
            webhook, client = dict(chosen.webhook), hooks[case].client_config("/convert")
            if "caBundle" in webhook:
                client.pop("caBundle")
                webhook.pop("caBundle")
            body = _definition(_group(number), webhook.pop("clientConfig", client), **webhook)
            (made,) = await cases.replies(
                transport, [Request(method="POST", path=_DEFINITIONS, body=body)], namespace=f"c-{run}"
            )
            assert made.code == 201, made
        found = {}
        try:
            for number, (case, chosen) in enumerate(CASES.items()):
                group = _group(number)
                await _until_served(transport, group)
                replies = [await _once(transport, one, f"c-{run}", group) for one in chosen.first]
                hooks[case].answer = chosen.answer
                replies += [await _once(transport, one, f"c-{run}", group) for one in chosen.requests]
                found[case] = replies
        finally:
            for number in range(len(CASES)):
                path = f"{_DEFINITIONS}/addresses.{_group(number)}"
                await cases.sent(transport, [Request(method="DELETE", path=path)], namespace=f"c-{run}")
        return found


def _group(number: int) -> str:
    return f"conversions-{number}.example.com"


async def _until_served(transport: Transport, group: str) -> None:
    """Wait until a server has a kind in all versions, for writes too."""
    probe = [Request(path=f"/apis/{group}/{version}/namespaces/default/addresses/x") for version in ("v1", "v2", "v3")]
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            replies = await cases.sent(transport, probe, namespace="default")
            if all((one.body or {}).get("details", {}).get("name") == "x" for one in replies):
                return
            await asyncio.sleep(0.1)


async def _once(transport: Transport, request: Request, namespace: str, group: str) -> Any:
    text = json.dumps(request.body).replace("$group", group) if request.body is not None else "null"
    sent = Request(
        method=request.method,
        path=request.path.replace("$group", group),
        body=json.loads(text),
        content_type=request.content_type,
        query=request.query,
    )
    (reply,) = await cases.sent(transport, [sent], namespace=namespace)
    return _seen(reply, namespace)


def _seen(reply: Reply, namespace: str) -> Any:
    body = reply.body or {}
    if reply.code >= 300:
        told = json.dumps([body.get("reason"), body.get("message"), body.get("details")]).replace(namespace, "NS")
        return reply.code, _UID.sub("UID", _PORT.sub("HOST", told))
    objects = body.get("items", [body])
    return reply.code, [_comparable(one) for one in objects if "spec" in one]


def _comparable(obj: dict[str, Any]) -> Any:
    metadata = {name: item for name, item in obj["metadata"].items() if name not in (*_GIVEN, "namespace")}
    owners = sorted(
        (one["manager"], one["operation"], one.get("apiVersion"), json.dumps(one["fieldsV1"], sort_keys=True))
        for one in obj["metadata"].get("managedFields") or ()
    )
    return {**obj, "metadata": metadata}, [one for one in owners if one[1] == "Apply"]


_SERVICE = {"name": "s", "namespace": "n"}
_URL = {"url": "https://127.0.0.1:1/"}
#: Conversions that are refused.
INVALID: list[dict[str, Any]] = [
    {"strategy": ""},
    {"strategy": "Other"},
    {"strategy": "Webhook"},
    {"strategy": "Webhook", "webhook": {}},
    {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
    {"strategy": "Webhook", "webhook": {"clientConfig": _URL}},
    {"strategy": "Webhook", "webhook": {"clientConfig": _URL, "conversionReviewVersions": []}},
    {"strategy": "Webhook", "webhook": {"clientConfig": _URL, "conversionReviewVersions": ["v9"]}},
    {"strategy": "Webhook", "webhook": {"clientConfig": _URL, "conversionReviewVersions": ["v1", "v1", "V1"]}},
    {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
    {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {**_URL, "service": _SERVICE}, "conversionReviewVersions": ["v1"]},
    },
    {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a/?x#y"}, "conversionReviewVersions": ["v1"]}},
    {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {**_SERVICE, "port": 70000, "path": "/a//B"}},
            "conversionReviewVersions": ["v1"],
        },
    },
    {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {**_URL, "caBundle": "eA=="}, "conversionReviewVersions": ["v1"]},
    },
    {"strategy": "None", "webhook": {"clientConfig": _URL, "conversionReviewVersions": ["v1"]}},
    {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
]  # fmt: skip


async def test_definitions_that_are_refused(servers: tuple[Transport, Transport]) -> None:
    wrong = []
    for conversion in INVALID:
        body = _definition("invalid.example.com", {})
        body["spec"]["conversion"] = conversion
        request = Request(method="POST", path=_DEFINITIONS, body=body, query={"dryRun": "All"})
        (ours,), (theirs,) = [await cases.sent(one, [request], namespace="default") for one in servers]
        mine, other = [(one.code, (one.body or {}).get("message")) for one in (ours, theirs)]
        if mine != other:
            wrong.append(f"{conversion}:\n  ours   {mine}\n  theirs {other}")
    assert not wrong, "\n".join(wrong)
