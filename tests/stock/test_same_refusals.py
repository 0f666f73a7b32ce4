"""Pods that share namespaces with their machine, and quotas with scopes: refused by both servers in the same words."""

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
