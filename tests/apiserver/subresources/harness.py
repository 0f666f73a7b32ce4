"""Registries with binders on a store, without HTTP."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.api.users import ADMINISTRATOR
from rota.apiserver.admission.node_capacity import NodeCapacity
from rota.apiserver.interfaces import Attributes, CustomSchema, DeleteOptions, Kinds, Object, Registry
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard
from rota.apiserver.node_allocations.pod_index import PodIndex
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.strategies import lookup
from rota.apiserver.subresources.binder import NODES, PODS, Binder, BindRequest, Verdict
from rota.kit import system
from rota.store.store_interface import Store


def _no_schema(resource: ResourceType) -> CustomSchema:
    raise AssertionError(resource)


@dataclass
class Server:
    """One server's registry and binder."""

    registry: ObjectRegistry
    binder: Binder

    def at(self, verb: str, plural: str, name: str = "", *, namespace: str = "", dry_run: bool = False) -> Attributes:
        resource = self.registry.resource(PODS if plural == "pods" else NODES)
        return Attributes(
            user=ADMINISTRATOR,
            verb=verb,
            resource=resource,
            now=0.0,
            namespace=namespace,
            name=name,
            dry_run=dry_run,
        )

    async def add_node(self, name: str, **allocatable: str) -> None:
        status = {"allocatable": {key.replace("__", "/").replace("_", "."): item for key, item in allocatable.items()}}
        at = self.at("create", "nodes", name)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await self.registry.create(at, node)
        stored = await self.registry.read(at.resource, "", name)
        await self.registry.rewrite(at, stored, lambda live: {**live, "status": status})

    async def add_pod(
        self,
        name: str,
        requests: Mapping[str, str] | None = None,
        ports: Sequence[int] = (),
        *,
        node: str = "",
        **metadata: Any,
    ) -> Object:
        pod = make_pod(name, requests, ports, node=node, **metadata)
        at = self.at("create", "pods", name, namespace="default")
        return (await self.registry.create(at, pod)).object

    async def bind(self, *wishes: tuple[str, str], atomic: bool = False) -> list[Verdict]:
        at = self.at("create", "pods", namespace="default")
        return await self.binder.bind(
            at,
            [BindRequest(namespace="default", name=pod, node=node) for pod, node in wishes],
            self.registry,
            atomic=atomic,
        )

    async def pod(self, name: str) -> Object:
        return (await self.registry.read(self.registry.resource(PODS), "default", name)).object

    async def pods(self) -> list[Object]:
        return [one.object for one in await self.registry.list(self.registry.resource(PODS))]

    async def delete_pod(self, name: str) -> None:
        at = self.at("delete", "pods", name, namespace="default")
        await self.registry.delete(at, DeleteOptions(grace_period_seconds=0))

    async def finish_pod(self, name: str, phase: str = "Succeeded") -> None:
        at = self.at("update", "pods", name, namespace="default")
        stored = await self.registry.read(at.resource, "default", name)
        await self.registry.rewrite(at, stored, lambda live: {**live, "status": {"phase": phase}})


def make_pod(
    name: str, requests: Mapping[str, str] | None = None, ports: Sequence[int] = (), *, node: str = "", **metadata: Any
) -> Object:
    container: Object = {"name": "main", "image": "x"}
    if requests:
        extended = {name: amount for name, amount in requests.items() if "/" in name}
        container["resources"] = {"requests": dict(requests), "limits": extended}
    if ports:
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports]
    spec: Object = {"containers": [container], **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, **metadata},
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def serving(store: Store, *, seed: int = 0, check: bool = True, indexed: bool = True) -> AsyncIterator[Server]:
    """A server's registry and binder on a store, with its index running (or not, which is only slower)."""
    clock = system.SystemClock()
    index = PodIndex(store, clock)
    ledger = OvercommitGuard(store, index)

    def kinds(registry: Registry) -> Kinds:
        admission = (NodeCapacity(registry, ledger),) if check else ()
        return Kinds(strategy=lookup.strategy, custom_schema=_no_schema, mutating=admission)

    registry = ObjectRegistry(store, scheme=scheme.builtin(), kinds=kinds, clock=clock, rng=random.Random(seed))
    task = asyncio.create_task(index.run()) if indexed else None
    try:
        yield Server(registry, Binder(ledger if check else None))
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
