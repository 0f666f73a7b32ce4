"""The queue as plain JSON data, for debugging."""

from typing import Any

from rota.scheduler.queue.entries import QueuedPod, QueueState
from rota.scheduler.queue.pod_backoff import over_at
from rota.scheduler.queue.scheduling_queue import SchedulingQueue


def dump(queue: SchedulingQueue, now: float) -> dict[str, Any]:
    """Dump every pod by state, ready ones in order; times are seconds from now."""
    ready = {queued.pod.uid: turn for turn, queued in enumerate(queue.order())}
    pods = sorted(queue.entries(), key=lambda queued: ready.get(queued.pod.uid, 0))
    return {
        "pods": {
            place.value: [_entry(queue, each, now) for each in pods if each.place is place] for place in QueueState
        },
        "nominations": {node: [pod.key for pod in coming] for node, coming in queue.nominations().items()},
        "inFlightEvents": queue.inflight_events,
    }


def _entry(queue: SchedulingQueue, queued: QueuedPod, now: float) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "pod": queued.pod.key,
        "uid": queued.pod.uid,
        "scheduler": queued.pod.shape.scheduler_name,
        "priority": queued.pod.priority,
        "attempts": queued.attempts,
        "queuedFor": round(now - queued.first_queued_at, 3),
        "hereFor": round(now - queued.queued_at, 3),
    }
    if queued.unschedulable_plugins:
        entry["turnedAwayBy"] = sorted(queued.unschedulable_plugins)
    if queued.gate:
        entry["heldBackBy"], entry["because"] = queued.gate, list(queued.held.reasons)
    if queued.place in {QueueState.BACKOFF, QueueState.ERROR_BACKOFF}:
        entry["restsFor"] = round(max(over_at(queued.backoff_until) - now, 0.0), 3)
    if node := queue.nominated_node(queued.pod.uid):
        entry["nominatedTo"] = node
    return entry
