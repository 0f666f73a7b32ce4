from typing import ClassVar

from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import PermitResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status
from rota.testing.schedulers import SchedulingCluster


async def test_metrics_have_upstreams_names_and_follow_what_happens(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("fits")
        await cluster.bound("fits")
        await cluster.add_pod("too-large", cpu="100")
        await cluster.refused("too-large")
        await cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        await cluster.clock.advance(1)
        _, body = scheduler.metrics.exposition()
    figures = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    profile = 'profile="default-scheduler"'
    assert figures[f'scheduler_schedule_attempts_total{{{profile},result="scheduled"}}'] == "1.0"
    assert figures[f'scheduler_schedule_attempts_total{{{profile},result="unschedulable"}}'] == "1.0"
    assert figures['scheduler_pending_pods{queue="unschedulable"}'] == "1.0"
    assert figures['scheduler_pending_pods{queue="gated"}'] == "1.0"
    assert figures["scheduler_pod_scheduling_attempts_count"] == "1.0"
    assert figures['scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}'] == "1.0"
    assert figures['scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}'] == "2.0"
    assert figures[f'scheduler_unschedulable_pods{{plugin="NodeResourcesFit",{profile}}}'] == "1.0"
    assert figures['scheduler_cache_size{type="nodes"}'] == "1.0"


class Refusing:
    """Reserve: refuses the pod that is called `unlucky`."""

    name: ClassVar[str] = "Refusing"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("no luck",)) if pod.name == "unlucky" else None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        return PermitResult()

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass


async def test_every_extension_point_is_measured_under_upstreams_name(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    config = "profiles: [{plugins: {multiPoint: {enabled: [{name: Refusing}]}}}]"
    async with cluster.scheduling(config, plugins=(Refusing,)) as scheduler:
        await cluster.add_pod("fits")
        await cluster.bound("fits")
        await cluster.add_pod("too-large", cpu="100")
        await cluster.refused("too-large")
        await cluster.add_pod("unlucky")
        await cluster.refused("unlucky")

        def measured(point: str, status: str) -> float:
            found = scheduler.metrics.value(
                "framework_extension_point_duration_seconds_count",
                extension_point=point,
                status=status,
                profile="default-scheduler",
            )
            return found or 0.0

        for point in ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"):
            assert measured(point, "Success"), point
        assert measured("PostFilter", "Unschedulable")
        assert measured("Reserve", "Unschedulable")
        assert measured("Unreserve", "Success")


async def test_a_pod_that_only_the_default_binder_binds_is_measured_too(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("web")
        await cluster.bound("web")
        labels = {"extension_point": "Bind", "status": "Success", "profile": "default-scheduler"}
        assert scheduler.metrics.value("framework_extension_point_duration_seconds_count", **labels) == 1
