"""A federation with real members for a module of tests, and the objects that they submit."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.api import meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.member.served_kinds import Types
from rota.testing.federations import FederationProcess, MemberProcess, client_of, until

DEPLOYMENTS = ("apps", "v1", "deployments")
CONFIG_MAPS = ("", "v1", "configmaps")
#: Region, zone and labels of the members, by name.
Members = Mapping[str, Sequence[str]]


@dataclass
class Processes:
    """What runs for a module."""

    federation: FederationProcess
    members: dict[str, MemberProcess]
    folder: Path


@dataclass
class Place:
    """A federation and its members, with a client of each."""

    processes: Processes
    control: Client
    members: dict[str, Client]

    async def submit(self, *objects: Mapping[str, Any]) -> None:
        types = Types(self.control)
        for obj in objects:
            await self.control.create(await types.of((obj["apiVersion"], obj["kind"])), obj)

    async def namespace(self, name: str) -> str:
        await self.submit({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    async def binding(self, name: str, namespace: str, holds: Any) -> Object:
        found = await until(self.control, kinds.bindings_of(namespace), name, holds, namespace=namespace)
        assert found is not None
        return found


@contextmanager
def running(folder: Path, members: Members, *arguments: str) -> Iterator[Processes]:
    """Members that have joined a control plane; each with the options of its join."""
    processes = {name: MemberProcess(folder / name) for name in members}
    with FederationProcess(folder / "control", *arguments) as federation:
        try:
            for one in processes.values():
                one.start()
            for name, options in members.items():
                kubeconfig = str(folder / name / "kubeconfig")
                joined = federation.rota("federation", "join", name, "--member", kubeconfig, *options)
                assert joined.returncode == 0, joined.stderr
            yield Processes(federation, processes, folder)
        finally:
            for one in processes.values():
                one.__exit__(None, None, None)


@asynccontextmanager
async def place(processes: Processes) -> AsyncIterator[Place]:
    """Clients of all, once every member is ready."""
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(processes.federation.client())
        members = {
            name: await stack.enter_async_context(client_of(processes.folder / name / "kubeconfig"))
            for name in processes.members
        }
        for name in members:
            await until(control, kinds.CLUSTERS, name, is_schedulable)
        yield Place(processes, control, members)


def is_schedulable(cluster: Object | None) -> bool:
    return cluster is not None and meta.is_condition_true(cluster, "Ready") and not cluster["spec"].get("taints")


def deployment(name: str, namespace: str, replicas: int, **pod_spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        **pod_spec.pop("container", {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod_spec}},
        },
    }


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def policy(
    namespace: str, api_version: str, kind: str, *, name: str = "policy", divided: bool = False, **spec: Any
) -> dict[str, Any]:
    placement: dict[str, Any] = dict(spec.pop("placement", {}))
    if divided:
        placement["replicaScheduling"] = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    selector = {"apiVersion": api_version, "kind": kind}
    if "selected" in spec:
        selector["name"] = spec.pop("selected")
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"resourceSelectors": [selector], "placement": placement, **spec},
    }


def only(*names: str) -> dict[str, Any]:
    return {"clusterAffinity": {"clusterNames": list(names)}}


def there(obj: Object | None) -> bool:
    return obj is not None


def absent(obj: Object | None) -> bool:
    return obj is None


def replicas(count: int) -> Any:
    return lambda obj: obj is not None and obj["spec"].get("replicas") == count


def targets(expected: Mapping[str, int | None]) -> Any:
    """Whether a binding goes to these clusters, with these replicas (None: none are recorded)."""

    def holds(binding: Object | None) -> bool:
        found = (binding or {}).get("spec", {}).get("clusters") or ()
        return {one["name"]: one.get("replicas") or None for one in found} == dict(expected)

    return holds
