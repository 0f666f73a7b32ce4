"""What a scenario is written with: queues, jobs and waits in a corner of a cluster that others use at the same time.

A scenario has a namespace, queues and an extended resource of its own. Only its pods ask for that resource, so the
amount of it on the nodes is the size of the scenario's cluster, and scenarios do not compete with each other. Those
that run at the same time use different nodes, since an eviction considers all pods of a node.

The same scenario runs on a cluster in virtual time and on real processes: `World` hides which one it is.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, PatchType, Propagation

NODES: Final = ("", "v1", "nodes")
EVENTS: Final = ("", "v1", "events")
NAMESPACES: Final = ("", "v1", "namespaces")
PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
#: Resources of scenarios begin with this.
DOMAIN: Final = "scenarios.test"
#: What probes ask for: every node has plenty.
PROBE: Final = f"{DOMAIN}/probe"
#: PriorityClasses that every cluster of scenarios has.
PRIORITIES: Final = {"low": 10, "mid": 500, "high": 1000}
#: A PriorityClass whose pods preempt nothing.
MEEK: Final = "meek"
#: A cluster of scenarios has so many lanes, each of four nodes in two domains of the network.
LANES: Final = 14


@dataclass(frozen=True, slots=True)
class Lane:
    """Nodes on which one scenario at a time runs: pods that others could evict share no node with it."""

    number: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, as `rota up` gives them."""
        return tuple(f"worker-{4 * self.number + each}" for each in range(1, 5))

    @property
    def domains(self) -> dict[str, tuple[int, str, tuple[str, ...]]]:
        """The HyperNodes: by name, the tier and the kind and names of the members."""
        left, right = f"left-{self.number}", f"right-{self.number}"
        return {
            left: (1, "Node", self.nodes[:2]),
            right: (1, "Node", self.nodes[2:]),
            f"whole-{self.number}": (2, "HyperNode", (left, right)),
        }


class World(Protocol):
    """A cluster as scenarios see it."""

    @property
    def client(self) -> Client:
        """The administrator's."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once a condition holds that is read from `pods` and `groups`; they are newer than the call."""

    def pods(self, namespace: str) -> Sequence[Object]:
        """The pods of a namespace."""

    def groups(self, namespace: str) -> Sequence[Object]:
        """The PodGroups of a namespace."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table: its name there, the configuration it needs, and what happens."""

    name: str
    conf: str
    play: Callable[["Stage"], Awaitable[None]]
    #: Amounts of the scenario's resource on the first nodes of its lane.
    room: tuple[int, ...]
    lane: Lane

    @property
    def resource(self) -> str:
        """The resource that only this scenario's pods ask for."""
        return f"{DOMAIN}/{self.name}"


class Stage:
    """The corner of a cluster in which one scenario runs."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world: Final = world
        self._client: Final = world.client
        self._name: Final = scenario.name
        self.namespace: Final = f"scenario-{scenario.name}"
        self.resource: Final = scenario.resource
        #: The amount of the resource in the cluster.
        self.size: Final = sum(scenario.room)
        self.nodes: Final = scenario.lane.nodes
        #: The two domains of the network.
        self.domains: Final = (set(self.nodes[:2]), set(self.nodes[2:]))
        self._probes: Final = itertools.count()

    async def open(self) -> None:
        """Create the namespace and a queue for jobs that name none."""
        await self._client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        await self.queue("")

    async def close(self) -> None:
        """Delete what holds processes, and wait until they have ended."""
        for target in (kinds.JOBS, ("apps", "v1", "deployments"), ("apps", "v1", "replicasets")):
            for one in (await self._client.list(target, namespace=self.namespace)).items:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(
                        target, meta.name(one), namespace=self.namespace, propagation=Propagation.BACKGROUND
                    )
        await self.until(lambda: not any(one["spec"].get("nodeName") for one in self._jobs_pods()))

    def _jobs_pods(self) -> list[Object]:
        return [one for one in self._world.pods(self.namespace) if kinds.JOB_NAME in meta.labels(one)]

    # Objects.

    def amount(self, units: int) -> dict[str, str]:
        """So much of the scenario's resource."""
        return {self.resource: str(units)}

    def queue_name(self, name: str) -> str:
        """A queue's name in the cluster; "" is the scenario's first one."""
        return f"{self._name}-{name}" if name else self._name

    async def queue(
        self,
        name: str,
        *,
        deserved: int | None = None,
        capability: int | None = None,
        guarantee: int | None = None,
        parent: str = "",
        **spec: Any,
    ) -> None:
        """Create an open queue; amounts are of the scenario's resource."""
        if deserved is not None:
            spec["deserved"] = self.amount(deserved)
        if capability is not None:
            spec["capability"] = self.amount(capability)
        if guarantee is not None:
            spec["guarantee"] = {"resource": self.amount(guarantee)}
        if parent:
            spec["parent"] = self.queue_name(parent)
        made = {"apiVersion": f"{kinds.SCHEDULING}/v1beta1", "kind": "Queue"}
        await self._client.create(kinds.QUEUES, {**made, "metadata": {"name": self.queue_name(name)}, "spec": spec})

    def pod(self, each: int, *, priority: str = "", gated: bool = False, **spec: Any) -> dict[str, Any]:
        """The spec of a pod that runs until it is stopped."""
        amounts = self.amount(each) if each else {}
        container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
        made: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{**container, "resources": {"requests": amounts, "limits": amounts}}],
            **spec,
        }
        if priority:
            made["priorityClassName"] = priority
        if gated:
            made["schedulingGates"] = [{"name": "scenarios.test/hold"}]
        return made

    def task(
        self,
        name: str,
        pods: int,
        *,
        least: int | None = None,
        each: int = 1,
        preemptable: bool = False,
        labels: Mapping[str, str] | None = None,
        partitions: Mapping[str, Any] | None = None,
        **pod: Any,
    ) -> dict[str, Any]:
        """A task of a job."""
        annotations = {kinds.PREEMPTABLE: "true"} if preemptable else {}
        metadata = {"labels": dict(labels or {}), "annotations": annotations}
        made = {"name": name, "replicas": pods, "template": {"metadata": metadata, "spec": self.pod(each, **pod)}}
        if least is not None:
            made["minAvailable"] = least
        if partitions is not None:
            made["partitionPolicy"] = dict(partitions)
        return made

    async def job(
        self,
        name: str,
        pods: int = 0,
        *,
        least: int | None = None,
        queue: str = "",
        priority: str = "",
        preemptable: bool = False,
        tasks: Sequence[Mapping[str, Any]] = (),
        spec: Mapping[str, Any] | None = None,
        **task: Any,
    ) -> None:
        """Create a job of `pods` that start together, all or `least` of them; or of several tasks."""
        body: dict[str, Any] = {
            "schedulerName": kinds.SCHEDULER,
            "queue": self.queue_name(queue),
            "tasks": list(tasks) or [self.task("w", pods, preemptable=preemptable, priority=priority, **task)],
            **(spec or {}),
        }
        if least is not None or not tasks:
            body["minAvailable"] = pods if least is None else least
        if priority:
            body["priorityClassName"] = priority
        metadata = {"name": name, "namespace": self.namespace}
        if preemptable:
            metadata["annotations"] = {kinds.PREEMPTABLE: "true"}  # type: ignore[assignment]
        made = {"apiVersion": f"{kinds.BATCH}/v1alpha1", "kind": "Job", "metadata": metadata, "spec": body}
        await self._client.create(kinds.JOBS, made)

    async def replicas(self, kind: str, name: str, pods: int, *, scheduler: str, **pod: Any) -> None:
        """Create a ReplicaSet or a Deployment whose pods this scheduler places."""
        labels = {kinds.JOB_NAME: name}
        spec = {**self.pod(pod.pop("each", 1), **pod), "schedulerName": scheduler, "restartPolicy": "Always"}
        made = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": pods,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self._client.create(("apps", "v1", f"{kind.lower()}s"), made)

    async def delete(self, name: str, target: tuple[str, str, str] = kinds.JOBS) -> None:
        """Delete a job, or another owner of pods."""
        await self._client.delete(target, name, namespace=self.namespace, propagation=Propagation.BACKGROUND)

    async def ungate(self, job: str, pods: int | None = None) -> None:
        """Remove the scheduling gates of a job's pods, or of so many."""
        gated = [one for one in self.pods_of(job) if one["spec"].get("schedulingGates")]
        for one in gated[:pods]:
            patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
            await self._client.patch(PODS, meta.name(one), patch, type=PatchType.JSON, namespace=self.namespace)

    # What is seen.

    def pods_of(self, job: str) -> list[Object]:
        """The pods of a job."""
        return [one for one in self._world.pods(self.namespace) if meta.labels(one).get(kinds.JOB_NAME) == job]

    def running(self, job: str, task: str = "") -> list[Object]:
        """The pods of a job, or of one task of it, that run and are not being stopped."""
        return [
            one
            for one in self.pods_of(job)
            if (one.get("status") or {}).get("phase") == "Running"
            and not meta.is_deleting(one)
            and (not task or meta.annotations(one).get(kinds.TASK_SPEC) == task)
        ]

    def nodes_of(self, job: str) -> Counter[str]:
        """How many pods of a job run on each node."""
        return Counter(one["spec"]["nodeName"] for one in self.running(job))

    def group(self, job: str) -> Object | None:
        """The PodGroup of a job."""
        found = (one for one in self._world.groups(self.namespace) if meta.name(one).startswith(f"{job}-"))
        return next(found, None)

    def phase(self, job: str) -> str:
        """The phase of a job's group."""
        return str((((self.group(job) or {}).get("status")) or {}).get("phase") or "")

    def refusal(self, job: str) -> str:
        """Why the scheduler says that a job's group is unschedulable; "" if it says nothing."""
        conditions = (((self.group(job) or {}).get("status")) or {}).get("conditions") or ()
        found = (one for one in conditions if one["type"] == "Unschedulable" and one["status"] == "True")
        return next((str(one.get("message")) for one in found), "")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition."""
        try:
            await self._world.until(holds)
        except AssertionError:
            raise AssertionError(f"{self._name}: {self._shown()}") from None

    def _shown(self) -> str:
        pods = [
            f"{meta.name(one)}: {one['spec'].get('nodeName', '-')} {one['status'].get('phase')}"
            + (" stopping" if meta.is_deleting(one) else "")
            for one in self._world.pods(self.namespace)
        ]
        groups = []
        for one in self._world.groups(self.namespace):
            status = one.get("status") or {}
            said = [(each["type"], each["status"], each.get("message")) for each in status.get("conditions") or ()]
            groups.append(f"group {meta.name(one)}: {status.get('phase')} {said}")
        return "\n".join([*pods, *groups])

    async def has(self, **running: int) -> None:
        """Wait until so many pods of each job run."""
        await self.until(lambda: all(len(self.running(job)) == count for job, count in running.items()))

    async def settles(self, **running: int) -> None:
        """Wait until so many pods of each job run, and see that they are the same after further decisions."""
        await self.has(**running)
        before = {meta.uid(one) for job in running for one in self.running(job)}
        await self.decided()
        assert {job: len(self.running(job)) for job in running} == running, self._shown()
        assert {meta.uid(one) for job in running for one in self.running(job)} == before, self._shown()

    async def waits(self, job: str, phase: str = "", **running: int) -> None:
        """See that a job waits as a whole and says so, while others run on undisturbed."""
        await self.until(lambda: bool(self.refusal(job)) and self.phase(job) in ((phase,) if phase else WAITING))
        await self.settles(**{job: 0, **running})
        assert not any(one["spec"].get("nodeName") for one in self.pods_of(job)), self._shown()
        assert self.refusal(job), self._shown()

    async def decided(self) -> None:
        """Return after two more decisions of the scheduler: two probes, one after the other, have been bound."""
        for _ in range(2):
            name = f"probe-{next(self._probes)}"
            group = {"apiVersion": f"{kinds.SCHEDULING}/v1beta1", "kind": "PodGroup"}
            about = {"name": name, "namespace": self.namespace}
            spec = {"minMember": 1, "queue": kinds.DEFAULT_QUEUE}
            await self._client.create(kinds.POD_GROUPS, {**group, "metadata": about, "spec": spec})
            pod = {**self.pod(0), "schedulerName": kinds.SCHEDULER}
            pod["containers"][0] |= {
                "command": ["true"],
                "resources": {"limits": {PROBE: "1"}, "requests": {PROBE: "1"}},
            }
            metadata = {**about, "annotations": {kinds.GROUP_NAME: name}}
            await self._client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
            await self.until(lambda name=name: self._is_bound(name))  # type: ignore[misc]

    def _is_bound(self, pod: str) -> bool:
        found = self._world.pods(self.namespace)
        return any(meta.name(one) == pod and one["spec"].get("nodeName") for one in found)

    async def evictions(self) -> list[str]:
        """The pods of jobs that were evicted."""
        found = (await self._client.list(EVENTS, namespace=self.namespace)).items
        names = [one["involvedObject"]["name"] for one in found if one["reason"] == "Evict"]
        return [one for one in names if not one.startswith("probe-")]


#: Phases of a group without nodes.
WAITING: Final = ("", "Pending", "Inqueue")
