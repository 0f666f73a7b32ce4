"""Events have their time."""

from typing import Any

import pytest

from rota.api import times
from rota.controllers import event_expiry
from rota.controllers.event_expiry import EVENTS, EventExpiry
from rota.testing.virtual_api import VirtualCluster


async def _event(cluster: VirtualCluster, name: str, **fields: Any) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Scheduled",
        "type": "Normal",
        **fields,
    }
    await cluster.client.create(EVENTS, event)


async def test_an_event_goes_an_hour_after_it_was_last_seen(cluster: VirtualCluster) -> None:
    await _event(cluster, "old")
    expiry = EventExpiry(cluster.acting_as("rota:controller:event-expiry"), clock=cluster.clock)
    await cluster.clock.advance(1800)
    await _event(cluster, "seen-again")
    assert await expiry.sweep() == 0
    await cluster.clock.advance(1800)
    assert await expiry.sweep() == 1
    assert not await cluster.exists(EVENTS, "old", "default")
    later = times.format_time(cluster.clock.now())
    await cluster.client.patch(EVENTS, "seen-again", {"lastTimestamp": later}, namespace="default")
    await cluster.clock.advance(1800)
    assert await expiry.sweep() == 0
    await cluster.clock.advance(1800)
    assert await expiry.sweep() == 1


async def test_sweeps_come_by_themselves_and_reach_every_page(
    cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_expiry, "_PAGE", 3)
    for number in range(10):
        await _event(cluster, f"e{number}")
    async with cluster.running(
        EventExpiry(cluster.acting_as("rota:controller:event-expiry"), clock=cluster.clock, life_s=60).run
    ):
        await cluster.clock.advance(130)

        async def empty() -> bool:
            return not (await cluster.client.list(EVENTS, namespace="default")).items

        await cluster.until(empty)


def test_the_latest_of_an_events_times_counts() -> None:
    assert event_expiry.last_seen({"metadata": {}}) == 0.0
    event = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "eventTime": "2026-01-01T00:00:01.000000Z",
        "series": {"lastObservedTime": "2026-01-01T00:00:09.000000Z"},
    }
    assert event_expiry.last_seen(event) == times.parse("2026-01-01T00:00:09Z")
