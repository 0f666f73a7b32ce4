"""A cluster for a test: an API server that runs, nodes that are simulated, and the questions that tests ask of it."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.client import client_factory, kubeconfig
from rota.client.paths import Target
from rota.client.verbs import Client, Object, Selection
from rota.kit import system, tasks
from rota.testing.nodes import SimulatedNodes

PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")
NAMESPACES = ("", "v1", "namespaces")
EVENTS = ("", "v1", "events")
LEASES = ("coordination.k8s.io", "v1", "leases")

_LOOK_AGAIN_S = 0.1
_SETTLING_S = 0.5


class Cluster:
    """One namespace of a cluster, through one client."""

    def __init__(self, client: Client, nodes: SimulatedNodes, namespace: str) -> None:
        self.client = client
        self.nodes = nodes
        self.namespace = namespace

    async def create(self, target: Target, *objects: Mapping[str, Any]) -> None:
        """Create objects in the test's namespace."""
        await asyncio.gather(*(self.client.create(target, one, namespace=self.namespace) for one in objects))

    async def get(self, target: Target, name: str) -> Object:
        """One object of the test's namespace."""
        return await self.client.get(target, name, namespace=self.namespace)

    async def list(self, target: Target, labels: str = "") -> Sequence[Object]:
        """Objects of the test's namespace."""
        found = await self.client.list(target, namespace=self.namespace, selection=Selection(labels=labels))
        return found.items

    async def placed(self, *names: str, patience_s: float = 30.0) -> dict[str, str]:
        """Where pods are, once all of them are somewhere."""
        found: dict[str, str] = {}

        async def everywhere() -> bool:
            pods = await self.list(PODS)
            found.update({one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in pods})
            return all(found.get(name) for name in names)

        await self.until(everywhere, f"{len(names)} pods are placed", patience_s=patience_s)
        return {name: found[name] for name in names}

    async def unschedulable(self, name: str) -> str:
        """Why a pod cannot be placed, once the scheduler has said so."""
        message = ""

        async def refused() -> bool:
            nonlocal message
            pod = await self.get(PODS, name)
            for one in pod["status"].get("conditions", ()):
                if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
                    message = one["message"]
            return bool(message)

        await self.until(refused, f"{name} is unschedulable")
        return message

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str, *, patience_s: float = 30.0) -> None:
        """Return once something holds; fails the test when patience is over."""
        try:
            async with asyncio.timeout(patience_s):
                while not await holds():  # noqa: ASYNC110  # what is waited for happens in other processes
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            raise AssertionError(f"not within {patience_s:.0f} s: {what}") from None


@contextlib.asynccontextmanager
async def connected(config: Path) -> AsyncIterator[Client]:
    """A client of the server that a kubeconfig names."""
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(config, clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        yield client


@contextlib.asynccontextmanager
async def cluster(
    config: Path, nodes: Sequence[Mapping[str, Any]], *, start_s: float = 0.0, heartbeat_s: float = 2.0
) -> AsyncIterator[Cluster]:
    """A namespace of its own on a server, and these nodes; all of it, and every pod, is gone at the end."""
    clock, rng = system.SystemClock(), system.rng()
    async with connected(config) as client:
        namespace = f"stock-{secrets.token_hex(4)}"
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        simulated = SimulatedNodes(client, nodes, clock=clock, rng=rng, start_s=start_s, heartbeat_s=heartbeat_s)
        try:
            await simulated.register()
            # Schedulers hear of nodes and pods through watches of their own, in no order; nobody tells when they have.
            await asyncio.sleep(_SETTLING_S)
            async with tasks.Supervisor("test", clock=clock, rng=rng) as parts:
                parts.start("nodes", simulated.run)
                yield Cluster(client, simulated, namespace)
        finally:
            await client.delete(NAMESPACES, namespace)
            await client.delete_collection(PODS, namespace=namespace, grace_period_s=0)
            await client.delete_collection(NODES)
