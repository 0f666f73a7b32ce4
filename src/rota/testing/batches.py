"""A server in virtual time and a scheduler with a batch profile, with helpers for groups and queues.

async with batches.cluster() as cluster, cluster.batching():
    await cluster.add_node("n1")
    await cluster.add_gang("train", 3)
    await cluster.started("train")
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from rota.api import errors
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, PatchType
from rota.scheduler.batch import conf, registry
from rota.scheduler.batch_profile.kinds import POD_GROUPS, QUEUES
from rota.scheduler.batch_profile.settings import BatchSettings, LiveBatchSettings
from rota.scheduler.service import Scheduler
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster

GROUP: Final = "scheduling.k8s.io/group-name"
API: Final = "scheduling.volcano.sh/v1beta1"
PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")


def make_group(name: str, least: int, *, queue: str = "default", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Build a PodGroup whose minimum is `least` pods of `cpu`."""
    thousandths = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    resources = {"cpu": f"{least * thousandths}m", "memory": f"{200 * least}Mi"}
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, "queue": queue, "minResources": resources, **spec},
    }


def make_member(
    group: str, number: int, *, cpu: str = "1", annotations: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Build a pod of a group."""
    pod = {"apiVersion": "v1", **make_pod(f"{group}-w-{number}", cpu=cpu, schedulerName="volcano", **spec)}
    pod["metadata"]["annotations"] = {GROUP: group, "volcano.sh/task-spec": "w", **(annotations or {})}
    del pod["metadata"]["uid"]
    return pod


class BatchCluster(SchedulingCluster):
    """A server in virtual time with helpers for groups."""

    @contextlib.asynccontextmanager
    async def batching(self, text: str = "", *, client: Client | None = None, **more: Any) -> AsyncIterator[Scheduler]:
        """A scheduler at work whose batch profile has this volcano-scheduler.conf."""
        live = LiveBatchSettings(None, clock=self.clock)
        if text:
            live.settings = BatchSettings(conf.parse(text, registry.KNOWN))
        async with self.scheduling(batch=live, client=client, **more) as scheduler:
            yield scheduler

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass until a condition holds; terminating pods end meanwhile, as a worker would see to it."""

        async def after_sweeping() -> bool:
            await self.sweep()
            return await condition()

        await super().until(after_sweeping)

    async def sweep(self) -> None:
        """End all terminating pods."""
        for pod in (await self.client.list(PODS, namespace="default")).items:
            if pod["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(errors.NotFound):
                    await self.client.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_s=0)

    async def add_queue(self, name: str, **spec: Any) -> None:
        """Create an open queue."""
        await self.client.create(QUEUES, {"apiVersion": API, "kind": "Queue", "metadata": {"name": name}, "spec": spec})

    async def add_priority(self, name: str, value: int) -> None:
        """Create a PriorityClass."""
        document = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        await self.client.create(PRIORITY_CLASSES, {**document, "metadata": {"name": name}})

    async def add_gang(
        self,
        name: str,
        pods: int,
        *,
        least: int | None = None,
        cpu: str = "1",
        queue: str = "default",
        priority: str = "",
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a group of pods that start together, all or `least` of them."""
        named = {"priorityClassName": priority} if priority else {}
        group = make_group(name, pods if least is None else least, queue=queue, cpu=cpu, **named)
        await self.client.create(POD_GROUPS, group)
        for number in range(pods):
            await self.client.create(PODS, make_member(name, number, cpu=cpu, annotations=annotations, **named, **spec))

    async def members(self, group: str) -> list[Object]:
        """The pods of a group that exist."""
        found = (await self.client.list(PODS, namespace="default")).items
        return [pod for pod in found if (pod["metadata"].get("annotations") or {}).get(GROUP) == group]

    async def placed(self, group: str) -> dict[str, str]:
        """The nodes of a group's pods, by name, for those that have one and are not terminating."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await self.members(group)
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        }

    async def started(self, group: str, pods: int | None = None) -> None:
        """Wait until all pods of a group, or so many, are bound."""

        async def condition() -> bool:
            return len(await self.placed(group)) == (len(await self.members(group)) if pods is None else pods)

        await self.until(condition)

    async def group(self, name: str) -> Object:
        """A PodGroup as it is now."""
        return await self.client.get(POD_GROUPS, name, namespace="default")

    async def phase(self, name: str, phase: str) -> Object:
        """Wait for a group's phase; the group."""

        async def condition() -> bool:
            return bool(((await self.group(name)).get("status") or {}).get("phase") == phase)

        await self.until(condition)
        return await self.group(name)

    async def run_pods(self, group: str) -> None:
        """Report that the bound pods of a group run."""
        for name in await self.placed(group):
            status = {"status": {"phase": "Running"}}
            await self.client.patch(
                PODS, name, status, type=PatchType.STRATEGIC, namespace="default", subresource="status"
            )

    async def end_pods(self, group: str, phase: str = "Succeeded") -> None:
        """Report that the bound pods of a group have ended."""
        for name in await self.placed(group):
            status = {"status": {"phase": phase}}
            await self.client.patch(
                PODS, name, status, type=PatchType.STRATEGIC, namespace="default", subresource="status"
            )


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[BatchCluster]:
    """A fresh server in memory, in virtual time."""
    clock = FakeClock()
    async with ApiServer(clock=clock, batch_kinds=True) as server:
        made = BatchCluster(server, clock)
        yield made
        await made.close()


def condition(group: Object, kind: str) -> Mapping[str, Any]:
    """A condition of a PodGroup, empty if it has none of this type."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})
