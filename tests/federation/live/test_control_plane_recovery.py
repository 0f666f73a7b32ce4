"""A control plane that is lost and restored on another store: its members are adopted again, and nothing restarts."""

import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rota.api import meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.testing.federations import AgentProcess, FederationProcess, MemberProcess, client_of, until
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.timeout(400)]

DEPLOYMENTS = ("apps", "v1", "deployments")
CONFIG_MAPS = ("", "v1", "configmaps")
PODS = ("", "v1", "pods")


def deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def policy(kind: str, version: str, *clusters: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": kind.lower(), "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": version, "kind": kind}],
            "placement": {"clusterAffinity": {"clusterNames": list(clusters)}},
        },
    }


def is_ready(cluster: Object | None) -> bool:
    return cluster is not None and meta.is_condition_true(cluster, "Ready") and not cluster["spec"].get("taints")


async def submit(control: Client) -> None:
    facts = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "facts", "namespace": "shop"},
        "data": {"a": "1"},
    }
    await control.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await control.create(DEPLOYMENTS, deployment())
    await control.create(CONFIG_MAPS, facts)
    await control.create(kinds.POLICIES, policy("Deployment", "apps/v1", "m1"))
    await control.create(kinds.POLICIES, policy("ConfigMap", "v1", "m1", "stock"))


async def test_a_restored_control_plane_adopts_its_members_and_restarts_nothing(
    tmp_path: Path, stock_server: StockApiServer
) -> None:
    member = MemberProcess(tmp_path / "m1")
    old = FederationProcess(tmp_path / "old")
    options = ("--lease-grace", "4s", "--fence-margin", "4s")
    async with AsyncExitStack() as stack:
        store = stack.enter_context(EtcdServer())
        stack.enter_context(member)
        with old:
            joined = old.rota("federation", "join", "stock", "--member", str(stock_server.kubeconfig()))
            assert joined.returncode == 0, joined.stderr
            agent = stack.enter_context(AgentProcess(tmp_path / "agent", "m1", old, member))
            async with old.client() as control:
                for name in ("m1", "stock"):
                    await until(control, kinds.CLUSTERS, name, is_ready)
                await submit(control)
                await until(
                    control,
                    DEPLOYMENTS,
                    "web",
                    lambda obj: obj is not None and (obj.get("status") or {}).get("readyReplicas") == 2,
                    namespace="shop",
                )
            stock = await stack.enter_async_context(client_of(stock_server.kubeconfig()))
            inside = await stack.enter_async_context(client_of(member.folder / "kubeconfig"))
            await until(stock, CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace="shop")
            saved = old.rota("backup", str(tmp_path / "saved"), "--store", f"sqlite:///{old.folder}/rota.db")
            assert saved.returncode == 0, saved.stderr
            before = await facts_of(inside, stock)
            old.kill()
        # another machine has the backup and the keys, and another kind of store
        restored = old.rota("restore", str(tmp_path / "saved"), "--store", store.url)
        assert restored.returncode == 0, restored.stderr
        new = FederationProcess(tmp_path / "new", "--store", store.url, *options)
        shutil.copy(old.folder / "encryption-keys.yaml", new.folder / "encryption-keys.yaml")
        stack.enter_context(new)
        control = await stack.enter_async_context(new.client())
        address = next(
            line.split("server: ")[1].strip()
            for line in (new.folder / "kubeconfig").read_text().splitlines()
            if "server: " in line
        )
        agent.stop()
        agent.start("--control-plane", address)
        for name in ("m1", "stock"):
            await until(control, kinds.CLUSTERS, name, is_ready)
        # the new control plane acts in both members
        await control.patch(CONFIG_MAPS, "facts", {"data": {"a": "2"}}, namespace="shop")
        for client in (inside, stock):
            await until(
                client,
                CONFIG_MAPS,
                "facts",
                lambda obj: obj is not None and obj["data"] == {"a": "2"},
                namespace="shop",
            )
        assert await facts_of(inside, stock) == before
        await control.delete(CONFIG_MAPS, "facts", namespace="shop")
        await until(stock, CONFIG_MAPS, "facts", lambda obj: obj is None, namespace="shop")


async def facts_of(inside: Client, stock: Client) -> list[Any]:
    """What a restart or a second creation would change."""
    pods = sorted((await inside.list(PODS, namespace="shop")).items, key=meta.name)
    web = await inside.get(DEPLOYMENTS, "web", namespace="shop")
    facts = [await client.get(CONFIG_MAPS, "facts", namespace="shop") for client in (inside, stock)]
    return [
        *((meta.uid(pod), pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods),
        (meta.uid(web), meta.metadata(web)["generation"]),
        *map(meta.uid, facts),
    ]
