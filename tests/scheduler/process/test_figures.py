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
