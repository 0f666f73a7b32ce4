from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from rota.client.pods import PODS
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Resource, Subscription
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status, unschedulable
from rota.scheduler.service import NODES
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster


async def test_a_pod_is_bound_to_a_node_where_it_fits_and_its_event_says_so(cluster: SchedulingCluster) -> None:
    await cluster.add_node("small", cpu="50m")
    await cluster.add_node("large")
    async with cluster.scheduling():
        await cluster.add_pod("web")
        assert await cluster.bound("web") == "large"
        assert await cluster.said("web", "Scheduled") == "Successfully assigned default/web to large"


async def test_a_pod_of_an_unknown_scheduler_name_is_left_alone(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling():
        await cluster.add_pod("theirs", schedulerName="somebody-else")
        await cluster.add_pod("ours")
        await cluster.bound("ours")
        assert await cluster.node_of("theirs") == ""


async def test_a_pod_that_fits_nowhere_gets_a_condition_and_is_bound_once_a_node_is_added(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("a", cpu="50m")
    await cluster.add_node("b", cpu="1", pods="0")
    async with cluster.scheduling():
        await cluster.add_pod("web")
        condition = await cluster.refused("web")
        assert condition["reason"] == "Unschedulable"
        why = "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods."
        assert condition["message"].startswith(why)
        assert (await cluster.said("web", "FailedScheduling")).startswith(why)
        await cluster.add_node("c")
        assert await cluster.bound("web") == "c"


async def test_without_nodes_pods_wait_for_the_first_one(cluster: SchedulingCluster) -> None:
    async with cluster.scheduling():
        await cluster.add_pod("web")
        condition = await cluster.refused("web")
        assert (condition["reason"], condition["message"]) == ("Unschedulable", "no nodes available to schedule pods")
        await cluster.add_node("n1")
        await cluster.bound("web", "n1")


async def test_a_gated_pod_is_tried_when_its_last_gate_is_lifted(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("web", schedulingGates=[{"name": "example.com/quota"}])
        await cluster.add_pod("other")
        await cluster.bound("other")
        assert await cluster.node_of("web") == ""
        assert [queued.gate for queued in scheduler.queue.entries()] == ["SchedulingGates"]
        await cluster.update_pod(
            "web", {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/quota"}]}}
        )
        await cluster.bound("web", "n1")


async def test_profiles_of_one_process_each_take_their_own_pods(cluster: SchedulingCluster) -> None:
    await cluster.add_node("empty")
    await cluster.add_node("used")
    await cluster.add_pod("first", on="used")
    packing = """
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 100}, {name: memory, weight: 100}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
    async with cluster.scheduling(packing):
        await cluster.add_pod("packed", schedulerName="packing")
        assert await cluster.bound("packed") == "used"
        await cluster.add_pod("spread")
        assert await cluster.bound("spread") == "empty"


async def test_pods_of_higher_priority_go_first(cluster: SchedulingCluster) -> None:
    await cluster.client.create(
        ("scheduling.k8s.io", "v1", "priorityclasses"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        },
    )
    await cluster.add_pod("plain", cpu="3")
    await cluster.add_pod("urgent", cpu="3", priorityClassName="urgent")
    await cluster.add_node("n1")
    async with cluster.scheduling():
        await cluster.bound("urgent", "n1")
        await cluster.refused("plain")


async def test_a_pod_that_is_being_deleted_is_not_scheduled(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    pod = make_pod("leaving")
    pod["metadata"] |= {"finalizers": ["example.com/hold"]}
    del pod["metadata"]["uid"]
    await cluster.client.create(PODS, {"apiVersion": "v1", **pod})
    await cluster.client.delete(PODS, "leaving", namespace="default")
    async with cluster.scheduling():
        assert await cluster.said("leaving", "FailedScheduling") == "skip schedule deleting pod: default/leaving"
        assert await cluster.node_of("leaving") == ""


class Patient:
    """Refuses nodes until the test has changed its mind, and waits for one kind of change of a node."""

    name: ClassVar[str] = "Patient"
    Args = NoArgs
    awaits: ClassVar[Action]
    willing: ClassVar[bool]

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if self.willing else unschedulable("not yet")

    def events_to_register(self) -> Sequence[Subscription]:
        return (Subscription(ClusterEvent(Resource.NODE, self.awaits)),)


@pytest.mark.parametrize(
    ("awaits", "patch"),
    [
        (Action.UPDATE_NODE_CONDITION, {"status": {"conditions": [{"type": "Warm", "status": "True"}]}}),
        (Action.UPDATE_NODE_ANNOTATION, {"metadata": {"annotations": {"example.com/warm": "yes"}}}),
    ],
)
async def test_a_plugin_gets_events_of_a_nodes_conditions_and_annotations(
    cluster: SchedulingCluster, awaits: Action, patch: dict[str, Any]
) -> None:
    Patient.awaits, Patient.willing = awaits, False
    await cluster.add_node("n1")
    config = "profiles: [{plugins: {multiPoint: {enabled: [{name: Patient}]}}}]"
    async with cluster.scheduling(config, plugins=(Patient,)):
        await cluster.add_pod("web")
        await cluster.refused("web")
        await cluster.clock.advance(60)
        Patient.willing = True
        subresource = "status" if "status" in patch else ""
        await cluster.client.patch(NODES, "n1", patch, subresource=subresource)
        await cluster.clock.advance(15)
        assert (await cluster.pod("web"))["spec"].get("nodeName") == "n1"
