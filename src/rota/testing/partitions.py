"""A federation whose network is cut at random while workloads run, and the invariants that hold meanwhile.

An exclusive workload (a StatefulSet with one replica) holds a lock on a file while it runs; a second one that runs at
the same time finds the lock taken and records that. An available workload (a Deployment) leaves a mark several times a
second, so a time without any of its pods shows. Each member also has objects of its own, which must stay as they are.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rota.api import meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.kit import system
from rota.testing.federation_network import Direction, FederationNetwork
from rota.testing.federations import until

_STATEFUL_SETS: Final = ("apps", "v1", "statefulsets")
_DEPLOYMENTS: Final = ("apps", "v1", "deployments")
#: Longer than a graceful eviction may take (`eviction_loop.TIMEOUT_S`).
_PATIENCE_S: Final = 700.0
#: Longer than marks are apart on a busy machine, and much shorter than a takeover.
_GAP_S: Final = 6.0
_OWN: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: own, namespace: default}
data: {owner: member}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: own-too, namespace: kube-system}
data: {owner: member}
"""
_EXCLUSIVE: Final = """
exec 9>>{folder}/lock
flock -n 9 || echo "$(date +%s.%N) $(readlink /proc/self/ns/net)" >> {folder}/violations
while :; do echo "$(date +%s.%N) $(readlink /proc/self/ns/net)" >> {folder}/exclusive; sleep 0.2 9>&-; done
"""
_AVAILABLE: Final = """
while :; do echo "$(date +%s.%N) $(readlink /proc/self/ns/net)" >> {folder}/available; sleep 0.2; done
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Mark:
    """One line that a workload wrote: when, and on which machine."""

    at: float
    machine: str


class PartitionedWorkloads:
    """The workloads and their marks."""

    def __init__(self, federation: FederationNetwork, client: Client, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._federation: Final = federation
        self._client: Final = client
        self._folder: Final = folder
        self._own: dict[str, list[str]] = {}

    async def start(self) -> None:
        """Submit everything, and wait until it runs."""
        for name in self._federation.names:
            await until(self._client, kinds.CLUSTERS, name, _is_schedulable, patience_s=_PATIENCE_S)
            manifest = self._folder / f"own-{name}.yaml"
            manifest.write_text(_OWN)
            await asyncio.to_thread(self._federation.rota, "submit", str(manifest), at=name)
            self._own[name] = await asyncio.to_thread(self._own_uids, name)
        await self._client.create(kinds.TAINT_POLICIES, _lost())
        for target, obj in (
            (_STATEFUL_SETS, _workload("StatefulSet", "db", 1, _EXCLUSIVE.format(folder=self._folder))),
            (_DEPLOYMENTS, _workload("Deployment", "web", 3, _AVAILABLE.format(folder=self._folder))),
            (kinds.POLICIES, _policy("StatefulSet", "db", "Aggregated")),
            (kinds.POLICIES, _policy("Deployment", "web", "Weighted")),
        ):
            await self._client.create(target, obj)
        await self.settled()

    async def settled(self) -> None:
        """Wait until everything is as the policies say: all members ready, all replicas ready, no eviction in progress,
        and the exclusive workload in one cluster."""
        for name in self._federation.names:
            await until(self._client, kinds.CLUSTERS, name, _is_schedulable, patience_s=_PATIENCE_S)
        for target, name, count in ((_STATEFUL_SETS, "db", 1), (_DEPLOYMENTS, "web", 3)):
            await until(self._client, target, name, _has_ready(count), namespace="default", patience_s=_PATIENCE_S)
        for binding in ("db-statefulset", "web-deployment"):
            await until(self._client, kinds.BINDINGS, binding, _is_at_rest, namespace="default", patience_s=_PATIENCE_S)

    async def home(self) -> str:
        """The cluster that the exclusive workload is assigned to."""
        binding = await self._client.get(kinds.BINDINGS, "db-statefulset", namespace="default")
        return str(binding["spec"]["clusters"][0]["name"])

    async def taken_over(self, former: str) -> None:
        """Wait until the exclusive workload is ready in another cluster than `former`."""

        def holds(binding: Object | None) -> bool:
            items = ((binding or {}).get("status") or {}).get("aggregatedStatus") or ()
            return any(item["clusterName"] != former and item.get("health") == "Healthy" for item in items)

        await until(self._client, kinds.BINDINGS, "db-statefulset", holds, namespace="default", patience_s=_PATIENCE_S)

    async def shown(self) -> str:
        """Where the control plane has placed the workloads, and what its members report."""
        lines = []
        for binding in (await self._client.list(kinds.BINDINGS, namespace="default")).items:
            spec, status = binding["spec"], binding.get("status") or {}
            told = {key: spec.get(key) for key in ("replicas", "clusters", "gracefulEvictionTasks")}
            lines.append(f"{meta.name(binding)}: {told}, reported: {status.get('aggregatedStatus')}")
        for work in (await self._client.list(kinds.WORKS)).items:
            carried = [one.get("spec", {}).get("replicas") for one in work["spec"]["workload"]["manifests"]]
            facts = f"replicas {carried}, deleted {work['metadata'].get('deletionTimestamp')}"
            lines.append(f"{meta.qualified_name(work)}: {facts}, status {work.get('status')}")
        return "\n".join(lines)

    def marks(self, name: str) -> list[Mark]:
        """The marks in a file, in the order of time."""
        path = self._folder / name
        lines = path.read_text().splitlines() if path.exists() else []
        return sorted((Mark(float(at), machine) for at, machine in map(str.split, lines)), key=lambda mark: mark.at)

    def check(self) -> None:
        """AssertionError with every invariant that was violated."""
        assert self.marks("violations") == [], "the exclusive workload ran twice at the same time"
        overlaps = _overlaps(self.marks("exclusive"))
        assert not overlaps, f"marks of two machines alternate: {overlaps}"
        available = self.marks("available")
        gaps = [
            (before.at, after.at - before.at)
            for before, after in itertools.pairwise(available)
            if after.at - before.at > _GAP_S
        ]
        assert not gaps, f"no pod of the available workload ran: {gaps}"
        for name, uids in self._own.items():
            assert self._own_uids(name) == uids, f"an object of {name} itself was changed or deleted"

    def _own_uids(self, member: str) -> list[str]:
        found = []
        for name, namespace in (("own", "default"), ("own-too", "kube-system")):
            shown = self._federation.rota("get", "configmap", name, "-n", namespace, "-o", "json", at=member)
            obj = json.loads(shown)
            found.append(f"{obj['metadata']['uid']} {obj['metadata']['resourceVersion']}")
        return found


async def soak(folder: Path, seconds: float, seed: int, *, say: Say) -> int:
    """Run everything in a new federation of three members; returns the number of cuts."""
    with FederationNetwork(folder, ("m1", "m2", "m3")) as federation:
        async with federation.client() as client:
            workloads = PartitionedWorkloads(federation, client, folder / "marks")
            try:
                await workloads.start()
                # One takeover in any case: the exclusive workload's member is cut off until another one has it.
                first = await workloads.home()
                say(f"{first} is cut off until its exclusive workload runs elsewhere")
                federation.cut(first, Direction.BOTH)
                await workloads.taken_over(first)
                federation.heal(first, Direction.BOTH)
                cuts = await cut_at_random(federation, seconds, random.Random(seed), say=say)  # noqa: S311
                await workloads.settled()
                workloads.check()
            except AssertionError as error:
                placed = await workloads.shown()
                raise AssertionError(f"{error}\n{placed}\n{federation.outputs()}") from error
            machines = {mark.machine for mark in workloads.marks("exclusive")}
            assert len(machines) > 1, "the exclusive workload was never taken over"
            return cuts


async def cut_at_random(federation: FederationNetwork, seconds: float, rng: random.Random, *, say: Say) -> int:
    """Cut links one after the other: of one member or of several, in one direction or both, for a short time or until
    after a takeover; returns how many times."""
    clock = system.SystemClock()
    end, times = clock.monotonic() + seconds, 0
    while clock.monotonic() < end:
        chosen = rng.sample(federation.names, rng.choice((1, 1, 1, 2, len(federation.names))))
        direction, length_s = rng.choice(tuple(Direction)), rng.choice((1.0, 3.0, 6.0, 12.0))
        length_s = min(length_s, max(1.0, end - clock.monotonic()))
        say(f"{', '.join(chosen)}: {direction.value} lost for {length_s:.0f} s")
        for name in chosen:
            federation.cut(name, direction)
        try:
            await clock.sleep(length_s)
        finally:
            for name in chosen:
                federation.heal(name, direction)
        times += 1
        await clock.sleep(rng.choice((0.2, 2.0, 5.0)))
    return times


def _overlaps(marks: Sequence[Mark]) -> list[Mark]:
    """Marks of one machine between those of another one."""
    # A, B, A within a second is no takeover: those take several.
    found = []
    for index in range(len(marks) - 2):
        first, second, third = marks[index : index + 3]
        if first.machine == third.machine != second.machine and third.at - first.at < 1.0:
            found.append(second)
    return found


def _is_schedulable(cluster: Object | None) -> bool:
    return (
        cluster is not None
        and meta.is_condition_true(cluster, "Ready")
        and not (cluster.get("spec") or {}).get("taints")
    )


def _has_ready(count: int) -> Callable[[Object | None], bool]:
    return lambda obj: obj is not None and (obj.get("status") or {}).get("readyReplicas") == count


def _is_at_rest(binding: Object | None) -> bool:
    if binding is None or binding["spec"].get("gracefulEvictionTasks"):
        return False
    items = (binding.get("status") or {}).get("aggregatedStatus") or ()
    return {item["clusterName"] for item in items} == {one["name"] for one in binding["spec"].get("clusters") or ()}


def _lost() -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "lost"},
        "spec": {
            "addOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
            "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "lost", "effect": "NoExecute"}],
        },
    }


def _policy(kind: str, name: str, preference: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": kind, "name": name}],
            "placement": {
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference}
            },
        },
    }


def _workload(kind: str, name: str, replicas: int, script: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["bash", "-c", script],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    pod = {"containers": [container], "terminationGracePeriodSeconds": 1}
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
