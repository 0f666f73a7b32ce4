"""Pod Security admission on the stock server and on ours: random pods at all levels and several versions."""

import asyncio
import os
import random
import secrets
from typing import Any

import pytest

from rota.client.transports.transport import Transport
from rota.testing.differential import allowances, cases
from rota.testing.differential.cases import Reply, Request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = int(os.environ.get("ROTA_FUZZ_PODS", "160"))
SEED = int(os.environ.get("ROTA_FUZZ_SEED", "1"))
VERSIONS = ("latest", "v1.0", "v1.18", "v1.20", "v1.24", "v1.26", "v1.28", "v1.30", "v1.33", "v1.34", "v1.99")
LABEL = "pod-security.kubernetes.io/"


def _some(rng: random.Random, **choices: tuple[Any, ...]) -> dict[str, Any]:
    """Each field with a chance of one half."""
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}


def _context(rng: random.Random) -> dict[str, Any]:
    found = _some(
        rng,
        privileged=(True, False),
        allowPrivilegeEscalation=(False, False, True),
        runAsNonRoot=(True, True, False),
        runAsUser=(0, 1000),
        seccompProfile=(
            {"type": "RuntimeDefault"},
            {"type": "Unconfined"},
            {"type": "Localhost", "localhostProfile": "x"},
        ),
        appArmorProfile=({"type": "RuntimeDefault"}, {"type": "Unconfined"}),
        seLinuxOptions=(
            {"type": "container_t"},
            {"type": "container_engine_t"},
            {"type": "x"},
            {"user": "u", "role": "r"},
        ),
        capabilities=(
            {"drop": ["ALL"]},
            {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            {"add": ["CHOWN", "SYS_ADMIN"]},
            {"add": ["NET_RAW"], "drop": ["ALL"]},
        ),
        procMount=("Default",),
    )
    if found.get("privileged") or "SYS_ADMIN" in (found.get("capabilities") or {}).get("add", ()):
        found.pop("allowPrivilegeEscalation", None)
    return found


def _pod(rng: random.Random) -> dict[str, Any]:
    def container(name: str) -> dict[str, Any]:
        one: dict[str, Any] = {"name": name, "image": "i", "securityContext": _context(rng)}
        if rng.random() < 0.2:
            one["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 8080))}]
        if rng.random() < 0.2:
            one["livenessProbe"] = {"httpGet": {"port": 80, "host": rng.choice(("h", "127.0.0.1"))}}
        return one

    of_pod = _context(rng)
    for name in ("privileged", "allowPrivilegeEscalation", "capabilities", "procMount"):
        of_pod.pop(name, None)
    of_pod |= _some(
        rng, sysctls=([{"name": "net.ipv4.tcp_rmem", "value": "1"}], [{"name": "kernel.msgmax", "value": "1"}])
    )
    spec: dict[str, Any] = {
        "containers": [container(name) for name in rng.sample(("a", "b", "c"), rng.randint(1, 2))],
        "securityContext": of_pod,
        "automountServiceAccountToken": False,
    }
    if rng.random() < 0.3:
        spec["initContainers"] = [container("init")]
    if rng.random() < 0.3:
        volumes: tuple[dict[str, Any], ...] = (
            {"hostPath": {"path": "/x"}},
            {"emptyDir": {}},
            {"nfs": {"server": "s", "path": "/p"}},
        )
        spec["volumes"] = [{"name": f"v{number}", **one} for number, one in enumerate(rng.sample(volumes, 2))]
    if rng.random() < 0.2:
        spec |= _some(rng, hostPID=(True,), hostIPC=(True,), hostNetwork=(True,))
    if rng.random() < 0.15:
        spec["hostUsers"] = False
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def _seen(reply: Reply) -> Any:
    return reply.code, (reply.body or {}).get("message") if reply.code >= 300 else "", sorted(reply.warnings)


async def test_random_pods(servers: tuple[Transport, Transport]) -> None:
    rng = random.Random(SEED)
    wrong = []
    for _ in range(max(COUNT // 20, 1)):
        level, version = rng.choice(("baseline", "restricted")), rng.choice(VERSIONS)
        warn = _some(rng, **{f"{LABEL}warn": ("baseline", "restricted"), f"{LABEL}warn-version": VERSIONS})
        labels = {f"{LABEL}enforce": level, f"{LABEL}enforce-version": version, **warn}
        pods = [_pod(rng) for _ in range(20)]
        namespace = f"psa-{secrets.token_hex(4)}"
        found = []
        for transport in servers:
            patch = Request(
                method="PATCH",
                path="/api/v1/namespaces/$ns",
                body={"metadata": {"labels": labels}},
                content_type="application/merge-patch+json",
            )
            creations = [
                Request(method="POST", path="/api/v1/namespaces/$ns/pods", body=pod, query={"dryRun": "All"})
                for pod in pods
            ]
            await cases.replies(transport, [patch], namespace=namespace)
            await _in_force(transport, namespace, f"{level}:{version}")
            found.append([_seen(one) for one in await cases.sent(transport, creations, namespace=namespace)])
        wrong += [
            f"{labels}\n  ours  {mine}\n  stock {other}"
            for mine, other in zip(*found, strict=True)
            if not _agree(mine, other)
        ]
    assert not wrong, f"{len(wrong)} of {COUNT}:\n" + "\n".join(wrong[:20])


async def _in_force(transport: Transport, namespace: str, level: str) -> None:
    """Wait until the server has read the labels."""
    spec = {"hostPID": True, "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    probe = Request(
        method="POST",
        path="/api/v1/namespaces/$ns/pods",
        body={"metadata": {"name": "probe"}, "spec": spec},
        query={"dryRun": "All"},
    )
    async with asyncio.timeout(30):
        while True:
            (reply,) = await cases.sent(transport, [probe], namespace=namespace)
            if level in str((reply.body or {}).get("message", "")):
                return
            await asyncio.sleep(0.05)


def _agree(mine: Any, other: Any) -> bool:
    """Warnings about other things than levels are not compared."""
    levels = [[text for text in one[2] if "PodSecurity" in text or "Pod Security" in text] for one in (mine, other)]
    return (mine[0], mine[1], levels[0]) == (other[0], other[1], levels[1])


@pytest.mark.parametrize(
    "labels",
    [
        {"enforce": "other"},
        {"enforce-version": "1.2"},
        {"enforce": "x", "audit": "y", "warn": "z", "warn-version": "v1.01"},
        {"enforce": "baseline", "warn": "privileged"},
        {},
    ],
    ids=str,
)
async def test_labels_of_namespaces(servers: tuple[Transport, Transport], labels: dict[str, str]) -> None:
    body = {"metadata": {"labels": {LABEL + name: value for name, value in labels.items()}}}
    pods = "/api/v1/namespaces/$ns/pods"
    requests = [
        Request(method="POST", path=pods, body=_pod(random.Random(2)) | {"metadata": {"name": "first"}}),
        Request(method="POST", path=pods, body=_pod(random.Random(2)) | {"metadata": {"name": "second"}}),
        Request(method="PATCH", path="/api/v1/namespaces/$ns", body=body, content_type="application/merge-patch+json"),
        Request(
            method="PATCH",
            path="/api/v1/namespaces/$ns",
            body={"metadata": {"labels": {f"{LABEL}enforce": "restricted"}}},
            content_type="application/merge-patch+json",
        ),
    ]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = Request(
        method="POST",
        path="/apis/apps/v1/namespaces/$ns/deployments",
        body={"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
    )
    namespace = f"psa-{secrets.token_hex(4)}"
    found = []
    for transport in servers:
        replies = await cases.replies(transport, requests, namespace=namespace)
        await _in_force(transport, namespace, "restricted:latest")
        replies += await cases.sent(transport, [deployment], namespace=namespace)
        found.append([_seen(one) for one in replies])
    for mine, other in zip(*found, strict=True):
        assert _agree(mine, other), (mine, other)


async def test_exemptions(servers: tuple[Transport, Transport]) -> None:
    """The namespace stays on the stock server: its name is in the server's configuration."""
    namespaces, name = "/api/v1/namespaces", allowances.EXEMPT_NAMESPACE
    labels = {f"{LABEL}enforce": "restricted", f"{LABEL}warn-version": "v1.30", f"{LABEL}audit": "baseline"}
    runtime = f"rt-{secrets.token_hex(3)}"
    spec = {"hostPID": True, "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    dry = {"dryRun": "All"}

    def labelled(given: dict[str, Any]) -> Request:
        return Request(
            method="PATCH",
            path=f"{namespaces}/{name}",
            body={"metadata": {"labels": given}},
            content_type="application/merge-patch+json",
            query=dry,
        )

    requests = [
        Request(
            method="POST",
            path=namespaces,
            body={"metadata": {"name": allowances.EXEMPT_NEW_NAMESPACE, "labels": labels}},
            query=dry,
        ),
        labelled(labels),
        labelled({f"{LABEL}enforce": "privileged"}),
        labelled({f"{LABEL}enforce": "nothing"}),
        Request(
            method="POST", path=f"{namespaces}/{name}/pods", body={"metadata": {"name": "p"}, "spec": spec}, query=dry
        ),
        Request(method="POST", path=f"/apis/apps/v1/namespaces/{name}/deployments", body=deployment, query=dry),
    ]
    prepared = [
        Request(method="POST", path=namespaces, body={"metadata": {"name": name}}),
        Request(
            method="POST",
            path=f"{namespaces}/{name}/serviceaccounts",
            body={"metadata": {"name": "default"}, "automountServiceAccountToken": False},
        ),
    ]
    found = []
    for transport in servers:
        await cases.sent(transport, prepared, namespace="default")
        seen = [_seen(one) for one in await cases.sent(transport, requests, namespace="default")]
        # In another namespace the level holds, except for pods of the exempt runtime class.
        patch = {"metadata": {"labels": labels}}
        await cases.replies(
            transport,
            [
                Request(
                    method="PATCH",
                    path=f"{namespaces}/$ns",
                    body=patch,
                    content_type="application/merge-patch+json",
                ),
                Request(
                    method="POST",
                    path="/apis/node.k8s.io/v1/runtimeclasses",
                    body={"metadata": {"name": allowances.EXEMPT_RUNTIME}, "handler": "process"},
                ),
            ],
            namespace=runtime,
        )
        await _in_force(transport, runtime, "restricted:latest")
        exempt = {"metadata": {"name": "p"}, "spec": {**spec, "runtimeClassName": allowances.EXEMPT_RUNTIME}}
        pod = Request(method="POST", path=f"{namespaces}/$ns/pods", body=exempt, query=dry)
        async with asyncio.timeout(60):
            while True:  # until the server knows the runtime class
                (reply,) = await cases.sent(transport, [pod], namespace=runtime)
                if "pod rejected: RuntimeClass" not in str((reply.body or {}).get("message")):
                    break
                await asyncio.sleep(0.1)
        found.append([*seen, _seen(reply)])
    wrong = [f"ours {mine}, theirs {other}" for mine, other in zip(*found, strict=True) if not _agree(mine, other)]
    assert not wrong, "\n".join(wrong)
    assert found[0][-1][0] == found[0][4][0] == 201
