"""Services of a whole cluster: real tasks behind an address and a name, and real tasks that ask for them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota import control_plane
from rota.client import client_factory, kubeconfig, pods
from rota.client.verbs import Client, PatchType
from rota.kit import system
from rota.store import store_factory
from rota.testing import process_cluster
from rota.testing.servers.processes import free_port
from rota.worker.runtimes.process import sandbox

pytestmark = pytest.mark.slow

SERVICES = ("", "v1", "services")
SLICES = ("discovery.k8s.io", "v1", "endpointslices")
EVENTS = ("", "v1", "events")
DEPLOYMENTS = ("apps", "v1", "deployments")
STATEFUL_SETS = ("apps", "v1", "statefulsets")
HERE = "default"
PATIENCE_S = 90.0
needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not sandbox.may_mount(), reason="names take a mount namespace, which takes root"
)


@asynccontextmanager
async def cluster(data: Path) -> AsyncIterator[Client]:
    clock, rng = system.SystemClock(), system.rng()
    store = await store_factory.open_store(f"sqlite:///{data}/store.db", time=clock, rng=rng)
    settings = control_plane.Settings(
        data=data / "master",
        port=0,
        workers=2,
        worker_prefix="w",
        workers_apart=True,
        alone=True,
        # tasks leave pages in the test's folder, which is closed to others
        run_as="root" if os.geteuid() == 0 else "",
    )
    try:
        async with asyncio.timeout(PATIENCE_S), control_plane.running(store, settings) as facts:
            endpoint = kubeconfig.load(Path(facts["config"]), clock=clock)
            async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
                yield client
    finally:
        await store.close()
        process_cluster.end_tasks(data)


def template(app: str, port: int, folder: Path) -> dict[str, Any]:
    """A web server at the pod's own address that tells its name, and is ready while its page `ok` is there."""
    site = f"{folder}/$POD"
    serve = f"exec {sys.executable} -m http.server {port} --bind $POD_IP --directory {site}"
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    script = f"mkdir -p {site}; touch {site}/ok; printf %s $POD > {site}/name; {serve}"
    return {
        "metadata": {"labels": {"app": app}, "annotations": {"rota.dev/address": "own"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "c",
                    "image": "none",
                    "env": env,
                    "command": ["/bin/sh", "-c", script],
                    "ports": [{"name": "http", "containerPort": port}],
                    "readinessProbe": {
                        "httpGet": {"path": "/ok", "port": "http"},
                        "periodSeconds": 1,
                        "failureThreshold": 1,
                    },
                }
            ],
        },
    }


def workload(kind: str, name: str, port: int, folder: Path, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": HERE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, port, folder),
            **spec,
        },
    }


def service(name: str, port: int, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": port, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": HERE},
        "spec": {"selector": {"app": name}, "ports": ports, **spec},
    }


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - the cluster's patience ends it
        await asyncio.sleep(0.05)


async def ready(client: Client, count: int) -> None:
    """Wait until a service has so many ready endpoints."""

    async def so() -> bool:
        found = (await client.list(SLICES, namespace=HERE)).items
        endpoints = [one for each in found for one in each.get("endpoints") or ()]
        return len([one for one in endpoints if one["conditions"]["ready"]]) == count

    await until(so)


async def asked(client: Client, name: str, *urls: str, times: int = 1) -> list[str]:
    """What a task of its own gets from URLs; `refused` where nothing listens."""
    code = (
        "import json, os, sys, urllib.request, urllib.error\n"
        "def ask(url):\n"
        "    try: return urllib.request.urlopen(os.path.expandvars(url), timeout=10).read().decode()\n"
        "    except urllib.error.URLError as problem: return f'{type(problem.reason).__name__}'\n"
        f"print(json.dumps([ask(url) for url in sys.argv[1:] for _ in range({times})]))\n"
    )
    container = {"name": "c", "image": "none", "command": [sys.executable, "-c", code, *urls]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HERE},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    await client.create(pods.PODS, pod)

    async def over() -> bool:
        found = await client.get(pods.PODS, name, namespace=HERE)
        return (found.get("status") or {}).get("phase") in {"Succeeded", "Failed"}

    await until(over)
    said = await client.request("GET", f"/api/v1/namespaces/{HERE}/pods/{name}/log")
    found: list[str] = json.loads(said)
    return found


async def test_a_service_leads_to_its_pods_and_follows_readiness_and_scale(tmp_path: Path) -> None:
    port, sites = free_port(), tmp_path / "sites"
    address = "http://$WEB_SERVICE_HOST:$WEB_SERVICE_PORT/name"
    async with cluster(tmp_path) as client:
        await client.create(SERVICES, service("web", port + 1))
        await client.create(DEPLOYMENTS, workload("Deployment", "web", port, sites))
        await ready(client, 2)
        names = {one.name for one in sites.iterdir()}
        assert len(names) == 2
        assert set(await asked(client, "first", address, times=6)) == names

        unready, left = sorted(names)
        (sites / unready / "ok").unlink()
        await ready(client, 1)
        assert set(await asked(client, "second", address, times=6)) == {left}

        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, type=PatchType.MERGE, namespace=HERE)
        await ready(client, 0)
        assert await asked(client, "third", address) == ["ConnectionRefusedError"]


@needs_mounts
async def test_services_and_pods_of_headless_ones_have_names(tmp_path: Path) -> None:
    port, sites = free_port(), tmp_path / "sites"
    async with cluster(tmp_path) as client:
        await client.create(SERVICES, service("web", port + 1))
        await client.create(SERVICES, service("db", port, clusterIP="None"))
        await client.create(DEPLOYMENTS, workload("Deployment", "web", port, sites, replicas=1))
        await client.create(STATEFUL_SETS, workload("StatefulSet", "db", port, sites, serviceName="db"))
        await ready(client, 3)
        (web,) = (one.name for one in sites.iterdir() if one.name.startswith("web-"))
        hosts = ("web", "web.default", "web.default.svc", "web.default.svc.cluster.local")
        found = await asked(client, "short", *(f"http://{one}:{port + 1}/name" for one in hosts))
        assert found == [web] * 4
        numbered = ("db-0.db", "db-1.db.default", "db-1.db.default.svc.cluster.local")
        found = await asked(client, "numbered", *(f"http://{one}:{port}/name" for one in numbered))
        assert found == ["db-0", "db-1", "db-1"]
        assert await asked(client, "any", f"http://db:{port}/name") in (["db-0"], ["db-1"])


async def test_an_unusable_port_is_reported_by_an_event_of_the_service(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        made = await client.create(SERVICES, service("web", free_port()))
        address, port = made["spec"]["clusterIP"], made["spec"]["ports"][0]["port"]
        taken = await asyncio.start_server(lambda *_: None, address, port)
        try:
            await client.create(DEPLOYMENTS, workload("Deployment", "web", port, tmp_path / "sites", replicas=1))

            async def told() -> bool:
                events = (await client.list(EVENTS, namespace=HERE)).items
                return any(
                    one["reason"] == "NotServed" and f"cannot listen at {address}:{port}" in one["message"]
                    for one in events
                )

            await until(told)
        finally:
            taken.close()
