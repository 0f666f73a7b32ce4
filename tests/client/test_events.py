"""Events: what becomes of reports, and that nobody has to wait for it."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.client.events.correlation import Correlator, CountEvent, CreateEvent, Reference, Report, Source
from rota.client.events.recorder import EVENTS, EventRecorder
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.scripted_api import CUT, Reply, ScriptedApi

ABOUT = Reference(api_version="v1", kind="Pod", namespace="default", name="web-0", uid="u1")
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "default", "uid": "u1"},
}


def _report(message: str = "no room", **changes: Any) -> Report:
    return Report(**{"about": ABOUT, "type": "Warning", "reason": "Failed", "message": message, **changes})


@pytest.fixture
def correlator() -> Correlator:
    return Correlator(Source(component="rota-scheduler", host="m1"))


def test_the_first_report_becomes_an_event(correlator: Correlator) -> None:
    made = correlator.correlate(_report(action="Binding"), at=1_700_000_000.0, now=0.0)
    assert isinstance(made, CreateEvent)
    assert made.event["metadata"]["namespace"] == "default"
    assert made.event["metadata"]["name"].startswith("web-0.")
    assert made.event["involvedObject"]["uid"] == "u1"
    assert made.event["source"] == {"component": "rota-scheduler", "host": "m1"}
    assert made.event["firstTimestamp"] == made.event["lastTimestamp"] == "2023-11-14T22:13:20Z"
    assert (made.event["count"], made.event["action"]) == (1, "Binding")


def test_the_same_again_only_counts(correlator: Correlator) -> None:
    made = correlator.correlate(_report(), at=0.0, now=0.0)
    again = correlator.correlate(_report(), at=5.0, now=5.0)
    assert isinstance(made, CreateEvent)
    assert isinstance(again, CountEvent)
    assert again.name == made.event["metadata"]["name"]
    assert again.patch == {"count": 2, "lastTimestamp": "1970-01-01T00:00:05Z", "message": "no room"}


def test_other_reasons_and_other_objects_are_other_events(correlator: Correlator) -> None:
    other = ABOUT._replace(name="web-1", uid="u2")
    reports = [_report(), _report(reason="Other"), _report(type="Normal"), _report(about=other)]
    made = [correlator.correlate(report, at=0.0, now=0.0) for report in reports]
    assert all(isinstance(one, CreateEvent) for one in made)
    assert len({one.event["metadata"]["name"] for one in made if isinstance(one, CreateEvent)}) == 4


def test_many_that_differ_in_their_message_become_one(correlator: Correlator) -> None:
    made = [correlator.correlate(_report(f"try {number}"), at=0.0, now=0.0) for number in range(14)]
    assert [type(one) for one in made] == [CreateEvent] * 11 + [CountEvent] * 3
    last = made[-1]
    assert isinstance(last, CountEvent)
    assert last.patch["message"] == "(combined from similar events): try 13"
    assert last.patch["count"] == 4


def test_one_object_cannot_drown_the_others(correlator: Correlator) -> None:
    made = [correlator.correlate(_report(), at=0.0, now=0.0) for _ in range(40)]
    assert sum(one is not None for one in made) == 25
    other = ABOUT._replace(name="web-1", uid="u2")
    assert correlator.correlate(_report(about=other), at=0.0, now=0.0) is not None
    assert correlator.correlate(_report(), at=300.0, now=300.0) is not None


def test_long_messages_are_cut_to_what_the_api_takes(correlator: Correlator) -> None:
    made = correlator.correlate(_report("x" * 5000), at=0.0, now=0.0)
    assert made is not None
    assert len(made.event["message"]) == 1024


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("client")


@pytest.fixture
async def recorder(client: Client, clock: FakeClock, metrics: Metrics) -> AsyncIterator[EventRecorder]:
    made = EventRecorder(client, Source(component="test"), clock=clock, rng=random.Random(0), metrics=metrics)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_a_report_is_tried_again_where_the_server_fails(
    recorder: EventRecorder, api: ScriptedApi, clock: FakeClock, metrics: Metrics
) -> None:
    api.replies.extend([CUT, Reply(code=500, reason="InternalError")])
    recorder.event(POD, "Normal", "Scheduled", "to n1")
    await clock.advance(10)
    assert [asked.method for asked in api.asked] == ["POST"] * 3
    assert metrics.value("recorder_events_total", outcome="written") == 1


async def test_a_report_that_is_refused_is_let_go(
    recorder: EventRecorder, api: ScriptedApi, clock: FakeClock, metrics: Metrics
) -> None:
    api.replies.append(Reply(code=403, reason="Forbidden"))
    recorder.event(POD, "Normal", "Scheduled", "to n1")
    await clock.advance(10)
    assert metrics.value("recorder_events_total", outcome="refused") == 1
    assert len(api.asked) == 1


async def test_a_server_that_hangs_costs_reports_but_no_time(
    recorder: EventRecorder, api: ScriptedApi, clock: FakeClock, metrics: Metrics
) -> None:
    api.open.clear()
    for number in range(3000):
        recorder.event(POD, "Normal", "Scheduled", f"{number}")
    assert metrics.value("recorder_events_total", outcome="overflow") == 2000
    api.open.set()


@pytest.mark.slow
async def test_no_object_is_left_without_its_warning_because_others_had_more_to_say(
    client: Client, api: ScriptedApi, clock: FakeClock, metrics: Metrics
) -> None:
    bucket = TokenBucket(rate=50, burst=100, now=0.0)
    recorder = EventRecorder(
        client, Source(component="test"), clock=clock, rng=random.Random(0), metrics=metrics, bucket=bucket
    )
    for attempt in range(3):
        for number in range(1200):
            pod = {**POD, "metadata": {"name": f"web-{number}", "namespace": "default", "uid": f"u{number}"}}
            recorder.event(pod, "Warning", "FailedScheduling", f"attempt {attempt}")
            recorder.event(pod, "Normal", "Seen", "again")
    task = asyncio.create_task(recorder.run())
    flushed = asyncio.create_task(recorder.flush())
    while not flushed.done():
        assert clock.monotonic() < 300
        await clock.advance(0.1)
        assert len(api.asked) <= 100 + clock.monotonic() * 50 + 1
    written = [json.loads(asked.body) for asked in api.asked]
    warned = {event["involvedObject"]["name"] for event in written if event.get("reason") == "FailedScheduling"}
    assert warned == {f"web-{number}" for number in range(1200)}
    late = [event["message"] for event in written if event.get("involvedObject", {}).get("name") == "web-1199"]
    assert late == ["attempt 2"], "what waits longest is told as it is now"
    task.cancel()
    await asyncio.wait([task])


async def test_events_reach_a_real_server_and_count_there(clock: FakeClock) -> None:
    async with ApiServer(clock=clock) as server:
        transport = InProcessTransport(server.app, clock=clock)
        client = Client(transport)
        recorder = EventRecorder(client, Source(component="test"), clock=clock, rng=random.Random(0))
        task = asyncio.create_task(recorder.run())
        for _ in range(3):
            recorder.event(POD, "Warning", "Failed", "no room")
        await recorder.flush()
        (event,) = (await client.list(EVENTS, namespace="default")).items
        assert (event["count"], event["message"], event["involvedObject"]["name"]) == (3, "no room", "web-0")
        await client.delete(EVENTS, event["metadata"]["name"], namespace="default")
        recorder.event(POD, "Warning", "Failed", "no room")
        await recorder.flush()
        (event,) = (await client.list(EVENTS, namespace="default")).items
        assert event["count"] == 4
        task.cancel()
        await asyncio.wait([task])
        await transport.close()
