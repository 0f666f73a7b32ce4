"""Refusals by both servers in the same words: pods, scopes of quotas, bounds of LimitRanges, APIServices."""

import asyncio
import re
import secrets
from typing import Any

import pytest

from rota.client.transports.transport import Transport
from rota.testing.differential import cases
from rota.testing.differential.cases import Request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _sysctls(*names: str) -> dict[str, Any]:
    return {"securityContext": {"sysctls": [{"name": one, "value": "1"} for one in names]}}


_CONTAINER = {"name": "c", "image": "i"}
PODS: list[dict[str, Any]] = [
    {"hostUsers": False},
    {"hostUsers": False, "hostPID": True},
    {"hostUsers": False, "hostIPC": True, "hostNetwork": True, "hostPID": True},
    {"hostUsers": True, "hostPID": True},
    {
        "hostUsers": False,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
        "containers": [{**_CONTAINER, "volumeDevices": [{"name": "v", "devicePath": "/d"}]}],
    },
    {"hostIPC": True, **_sysctls("kernel.msgmax", "kernel.sem", "net.ipv4.tcp_rmem", "kernel.other")},
    {"hostIPC": True, **_sysctls("kernel.shm_rmid_forced", "fs.mqueue.msg_max", "fs/mqueue/queues_max", "kernel/sem")},
    {"hostNetwork": True, **_sysctls("net.ipv4.tcp_rmem", "net/ipv4/conf/eth0.1/forwarding", "kernel.msgmax")},
    {**_sysctls("kernel.msgmax", "net.core.somaxconn")},
]
_BOTH = ("Terminating", "NotTerminating")
QUOTAS: list[dict[str, Any]] = [
    {"hard": {"pods": "1"}, "scopes": ["BestEffort"]},
    {"hard": {"cpu": "1", "memory": "1"}, "scopes": ["BestEffort"]},
    {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
    {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating", "Other"]},
    {"hard": {"secrets": "1", "requests.cpu": "1"}, "scopes": ["NotTerminating"]},
    {"hard": {"persistentvolumeclaims": "1"}, "scopes": ["VolumeAttributesClass"]},
    {"hard": {"pods": "1"}, "scopes": ["VolumeAttributesClass"]},
    {"hard": {"count/secrets": "1"}, "scopes": ["NotBestEffort"]},
    *(
        {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": one}}
        for one in (
            [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
            [{"scopeName": "PriorityClass", "operator": "In"}],
            [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["high"]}],
            [{"scopeName": "PriorityClass", "operator": "Other"}],
            [{"scopeName": "Other", "operator": "Exists"}],
            [{"scopeName": "Terminating", "operator": "In", "values": ["x"]}],
            [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}],
        )
    ),
    {
        "hard": {"pods": "1"},
        "scopes": ["Terminating"],
        "scopeSelector": {"matchExpressions": [{"scopeName": one, "operator": "Exists"} for one in _BOTH]},
    },
]


def _amounts(cpu: str = "", memory: str = "", storage: str = "") -> dict[str, str]:
    given = {"cpu": cpu, "memory": memory, "storage": storage}
    return {name: amount for name, amount in given.items() if amount}


def _with(requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {**_CONTAINER, "resources": {"requests": requests, "limits": limits or {}}, **more}


#: Limits of one namespace each. There is one LimitRange in it, and each bound is of one resource: the stock server has
#: no order of either.
RANGES: list[list[dict[str, Any]]] = [
    [{"type": "Container", "min": _amounts(cpu="100m")}],
    [{"type": "Container", "max": _amounts(cpu="1")}],
    [{"type": "Container", "max": _amounts(memory="1Gi"), "default": _amounts(memory="512Mi")}],
    [{"type": "Container", "default": _amounts("500m", "1Gi"), "defaultRequest": _amounts("100m", "64Mi")}],
    [{"type": "Container", "defaultRequest": _amounts("200m"), "max": _amounts("1")}],
    [{"type": "Container", "maxLimitRequestRatio": _amounts(cpu="2500m")}],
    [{"type": "Pod", "min": _amounts(memory="1Gi")}],
    [{"type": "Pod", "max": _amounts(cpu="1500m")}],
    [{"type": "Pod", "maxLimitRequestRatio": _amounts(memory="2")}],
    [{"type": "PersistentVolumeClaim", "min": _amounts(storage="1Gi")}],
    [{"type": "PersistentVolumeClaim", "max": _amounts(storage="2Gi")}],
    [{"type": "Container", "min": _amounts(cpu="100m")}, {"type": "Pod", "max": _amounts(memory="1Gi")}],
]
_SIDE = {"name": "s", "restartPolicy": "Always"}
LIMITED: list[tuple[str, dict[str, Any]]] = [
    *(
        ("pods", {"containers": containers, "initContainers": initial, "automountServiceAccountToken": False, **more})
        for containers, initial, more in (
            ([_CONTAINER], [], {}),
            ([_CONTAINER], [{**_CONTAINER, "name": "i"}], {}),
            ([_with(_amounts("50m", "64Mi"))], [], {}),
            ([_with(_amounts("100m", "1Gi"), _amounts("250m", "2Gi"))], [], {}),
            ([_with(_amounts("100m", "1Gi"), _amounts("251m", "2049Mi"))], [], {}),
            ([_with(_amounts("900m", "512Mi"), _amounts("2", "1Gi"))], [], {}),
            ([_with(_amounts("1", "600Mi"), _amounts("1", "600Mi"), name=one) for one in "ab"], [], {}),
            ([_with(_amounts("0"), _amounts("1"))], [], {}),
            ([_CONTAINER], [_with(_amounts("2", "2Gi"), _amounts("2", "2Gi"), **_SIDE)], {}),
            ([_with(_amounts("1", "1Gi"))], [_with(_amounts("3"), _amounts("3"), name="i")], {}),
            ([_CONTAINER], [], {"resources": {"requests": _amounts("1", "2Gi"), "limits": _amounts("2", "4Gi")}}),
            ([{"name": "-"}], [], {}),
        )
    ),
    *(
        ("persistentvolumeclaims", {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _amounts(storage=one)}})
        for one in ("512Mi", "1Gi", "2Gi", "3Gi")
    ),
]


async def test_limits(servers: tuple[Transport, Transport]) -> None:
    run = secrets.token_hex(4)
    requests = [
        Request(
            method="POST",
            path=f"/api/v1/namespaces/$ns/{plural}",
            body={"metadata": {"name": "x"}, "spec": spec},
            query={"dryRun": "All"},
        )
        for plural, spec in LIMITED
    ]
    found: list[list[Any]] = []
    for transport in servers:
        seen: list[Any] = []
        for number, limits in enumerate(RANGES):
            namespace = f"limits-{number}-{run}"
            made = Request(
                method="POST",
                path="/api/v1/namespaces/$ns/limitranges",
                body={"metadata": {"name": "l"}, "spec": {"limits": limits}},
            )
            (reply,) = await cases.replies(transport, [made], namespace=namespace)
            assert reply.code == 201, reply
            seen.append(reply.body["spec"])
        for number, _ in enumerate(RANGES):
            replies = await cases.sent(transport, requests, namespace=f"limits-{number}-{run}")
            seen += [_limited(one) for one in replies]
        found.append(seen)
    asked = [*RANGES, *((limits, spec) for limits in RANGES for _, spec in LIMITED)]
    wrong = [
        f"{what}: ours {mine}, theirs {other}" for what, mine, other in zip(asked, *found, strict=True) if mine != other
    ]
    assert not wrong, "\n".join(wrong)
    codes = {one[0] for one in found[1][len(RANGES) :]}
    assert codes == {201, 403, 422}


def _limited(reply: cases.Reply) -> Any:
    """What a LimitRange has to do with in a reply."""
    body = reply.body
    if reply.code >= 300:
        return reply.code, body.get("message")
    spec = body["spec"]
    parts = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    annotations = body["metadata"].get("annotations") or {}
    return reply.code, annotations.get("kubernetes.io/limit-ranger"), [one.get("resources") for one in parts]


async def test_refusals(servers: tuple[Transport, Transport]) -> None:
    objects = [
        *(
            ("pods", {"spec": {"containers": [_CONTAINER], "automountServiceAccountToken": False, **one}})
            for one in PODS
        ),
        *(("resourcequotas", {"spec": one}) for one in QUOTAS),
    ]
    requests = [
        Request(
            method="POST",
            path=f"/api/v1/namespaces/$ns/{plural}",
            body={"metadata": {"name": "x"}, **obj},
            query={"dryRun": "All"},
        )
        for plural, obj in objects
    ]
    namespace = f"refused-{secrets.token_hex(4)}"
    ours, theirs = [await cases.replies(one, requests, namespace=namespace) for one in servers]
    wrong = []
    for (_, obj), mine, other in zip(objects, ours, theirs, strict=True):
        said = [(one.code, one.body.get("message") if one.code >= 300 else "") for one in (mine, other)]
        if said[0] != said[1]:
            wrong.append(f"{obj['spec']}: ours {said[0]}, theirs {said[1]}")
    assert not wrong, "\n".join(wrong)
    assert {one.code for one in theirs} == {201, 422}


_REGISTRATION = "/apis/apiregistration.k8s.io/v1/apiservices"
_REMOTE = {"namespace": "n", "name": "s"}
API_SERVICES: list[dict[str, Any]] = [
    {"name": "other"},
    {"group": "Upper"},
    {"group": "", "version": "v9"},
    {"version": ""},
    {"version": "V1"},
    {"groupPriorityMinimum": 0},
    {"groupPriorityMinimum": 20_001},
    {"groupPriorityMinimum": 20_000, "versionPriority": 1000},
    {"versionPriority": 1001},
    {"versionPriority": None},
    {"service": None},
    {"service": None, "caBundle": "eA==", "insecureSkipTLSVerify": True},
    {"service": {}},
    {"service": {**_REMOTE, "port": 70_000}},
    {"service": {**_REMOTE, "port": 0}},
    {"caBundle": "eA==", "insecureSkipTLSVerify": True},
    {"caBundle": "eA=="},
]


def _api_service(name: str | None = None, **spec: Any) -> dict[str, Any]:
    given = {
        "group": "invalid.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "service": _REMOTE,
        **spec,
    }
    found = {key: value for key, value in given.items() if value is not None}
    name = name or f"{given['version']}.{given['group']}"
    metadata = {"name": name}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": found}


async def test_api_services(servers: tuple[Transport, Transport]) -> None:
    """Refusals of APIServices, and the conditions of those whose servers are not reached."""
    wrong = []
    for given in API_SERVICES:
        request = Request(method="POST", path=_REGISTRATION, body=_api_service(**given), query={"dryRun": "All"})
        (ours,), (theirs,) = [await cases.sent(one, [request], namespace="default") for one in servers]
        if (ours.code, ours.body.get("message")) != (theirs.code, theirs.body.get("message")):
            wrong.append(f"{given}: ours {ours.body}, theirs {theirs.body}")
    mine, other = [await _conditions(one) for one in servers]
    wrong += [f"{case}: ours {mine[case]}, theirs {other[case]}" for case in other if mine[case] != other[case]]
    assert not wrong, "\n".join(wrong)
    assert {found[1] for found in other.values()} >= {"Local", "ServiceNotFound", "FailedDiscoveryCheck"}


_PLAIN_SERVICE = {"spec": {"ports": [{"name": "tls", "port": 443}]}}
#: By the name of a group: a Service, and the endpoints of its slice if it has one.
BACKENDS: dict[str, tuple[dict[str, Any] | None, list[dict[str, Any]] | None]] = {
    "no-service": (None, None),
    "other-port": ({"spec": {"ports": [{"name": "tls", "port": 80}]}}, None),
    "no-slices": (_PLAIN_SERVICE, None),
    "not-ready": (_PLAIN_SERVICE, [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}]),
    "nothing-listens": ({"spec": {"type": "ExternalName", "externalName": "localhost"}}, None),
}


async def _conditions(transport: Transport) -> dict[str, tuple[str, ...]]:
    """The condition of each API, and the answer to a request for it."""
    run = secrets.token_hex(4)
    namespace = f"a-{run}"
    await cases.replies(transport, [], namespace=namespace)
    groups = {case: f"{case}-{run}.example.com" for case in (*BACKENDS, "local")}
    core, slices = "/api/v1/namespaces/$ns/services", "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices"
    for case, (service, endpoints) in BACKENDS.items():
        bodies = [(core, {**service, "metadata": {"name": case}})] if service is not None else []
        if endpoints is not None:
            labels = {"kubernetes.io/service-name": case}
            ports = [{"name": "tls", "port": 443}]
            metadata = {"name": case, "labels": labels}
            found = {"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints}
            bodies.append((slices, found))
        # nothing listens on port 1
        port = 1 if case == "nothing-listens" else 443
        remote = {"namespace": namespace, "name": case, "port": port}
        declared = _api_service(group=groups[case], service=remote, insecureSkipTLSVerify=True)
        bodies.append((_REGISTRATION, declared))
        for path, body in bodies:
            (made,) = await cases.sent(transport, [Request(method="POST", path=path, body=body)], namespace=namespace)
            assert made.code == 201, made
    local = Request(method="POST", path=_REGISTRATION, body=_api_service(group=groups["local"], service=None))
    assert (await cases.sent(transport, [local], namespace=namespace))[0].code == 201
    try:
        return {case: await _condition(transport, case, group, namespace) for case, group in groups.items()}
    finally:
        for group in groups.values():
            gone = Request(method="DELETE", path=f"{_REGISTRATION}/v1.{group}")
            await cases.sent(transport, [gone], namespace=namespace)


async def _condition(transport: Transport, case: str, group: str, namespace: str) -> tuple[str, ...]:
    look = Request(path=f"{_REGISTRATION}/v1.{group}")
    async with asyncio.timeout(60):
        while True:
            (reply,) = await cases.sent(transport, [look], namespace=namespace)
            found = next(iter((reply.body.get("status") or {}).get("conditions") or ()), None)
            if found is not None:
                break
            await asyncio.sleep(0.1)
    message = str(found["message"]).replace(group, "GROUP").replace(namespace, "NS")
    message = re.sub(r"dial tcp \S+:1: ", "dial tcp HOST: ", message)
    answer: tuple[str, ...] = ()
    if case != "local":
        (reply,) = await cases.sent(transport, [Request(path=f"/apis/{group}/v1/things")], namespace=namespace)
        answer = (str(reply.code), str(reply.body).strip())
    return found["status"], found["reason"], message, *answer
