"""Events about nodes that mean notices, in virtual time."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.api import errors, meta, times
from rota.client.transports.transport import Interrupted
from rota.client.verbs import Object
from rota.kit.metrics import Metrics
from rota.notices import node_events
from rota.notices.announcements import Announcement, Decision, Kind
from rota.notices.announcer import NODES, Announcer
from rota.notices.node_events import EVENTS, NodeEvents
from rota.spot import node_readings, node_signals
from rota.spot.node_signals import TERMINATING, NodeSignals
from rota.testing import manifests, virtual_api
from rota.testing.virtual_api import VirtualCluster

pytestmark = pytest.mark.slow


class World:
    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = cluster.clock
        self.metrics = Metrics("spot")

    @contextlib.asynccontextmanager
    async def listening(self, table: NodeSignals | None = None) -> AsyncIterator[None]:
        table = table or NodeSignals()
        announcer = Announcer(self.client, table, clock=self.clock, metrics=self.metrics)
        listener = NodeEvents(self.client, announcer, table, clock=self.clock, rng=self.cluster.rng)
        async with self.cluster.running(listener.run):
            await self.clock.advance(1)
            yield
            await self.clock.advance(1)

    async def node(self, name: str = "n1") -> Object:
        return await self.client.create(NODES, manifests.node(name))

    async def event(self, node: Object, reason: str, message: str = "", **changes: Any) -> Object:
        now = times.format_time(self.clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "e-", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": meta.name(node), "uid": meta.uid(node)},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "handler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            **changes,
        }
        made = await self.client.create(EVENTS, event, namespace="default")
        await self.clock.advance(1)
        return made

    async def reading(self, name: str = "n1") -> node_readings.Reading:
        return node_readings.read(await self.client.get(NODES, name), NodeSignals(), now=self.clock.now())

    async def version(self, name: str = "n1") -> str:
        return str((await self.client.get(NODES, name))["metadata"]["resourceVersion"])

    def outcome(self, outcome: str) -> float:
        labels = {"source": "event", "provider": "aws", "kind": "termination", "outcome": outcome}
        return self.metrics.value("notices_heard_total", **labels) or 0.0


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with virtual_api.cluster() as made:
        yield World(made)


async def test_the_termination_handlers_event_is_a_notice(world: World) -> None:
    node = await world.node()
    async with world.listening():
        began = world.clock.now()
        await world.event(node, "SpotInterruption", "Spot ITN received.")
        notice = (await world.reading()).notice
        assert notice is not None
        assert (notice.provider, notice.mark) == ("aws", TERMINATING)
        assert notice.deadline == pytest.approx(began + 120, abs=1)


async def test_a_time_in_the_message_beats_the_usual_one(world: World) -> None:
    node = await world.node()
    async with world.listening():
        ends = times.format_time(world.clock.now() + 25)
        await world.event(node, "PreemptScheduled", f"Preempt Scheduled: {ends}. DurationInSeconds: -1.")
        notice = (await world.reading()).notice
        assert notice is not None
        assert (notice.provider, times.format_time(notice.deadline)) == ("azure", ends)


async def test_a_recommendation_is_a_risk_and_other_events_are_nothing(world: World) -> None:
    node = await world.node()
    async with world.listening():
        await world.event(node, "NodeNotReady")
        assert (await world.reading()).risky == ""
        await world.event(node, "SpotRebalanceRecommendation")
        reading = await world.reading()
        assert (bool(reading.risky), reading.notice) == (True, None)


async def test_an_event_that_is_listed_again_after_a_restart_is_no_new_notice(world: World) -> None:
    node = await world.node()
    async with world.listening():
        await world.event(node, "SpotInterruption")
    version = await world.version()
    async with world.listening():
        assert await world.version() == version
    assert (world.outcome("marked"), world.outcome("known")) == (1, 1)


async def test_an_event_that_is_counted_up_is_the_notice_that_it_was(world: World) -> None:
    node = await world.node()
    async with world.listening():
        event = await world.event(node, "SpotInterruption")
        version = await world.version()
        again = {"count": 8, "lastTimestamp": times.format_time(world.clock.now() + 5)}
        await world.client.patch(EVENTS, meta.name(event), again, namespace="default")
        await world.clock.advance(2)
        assert await world.version() == version
    assert world.outcome("marked") == 1


async def test_events_missed_during_an_outage_are_processed_if_still_current(world: World) -> None:
    one, other = await world.node("n1"), await world.node("n2")
    await world.event(one, "SpotInterruption")
    await world.clock.advance(150)
    await world.event(other, "SpotInterruption")
    await world.clock.advance(40)
    async with world.listening():
        assert (await world.reading("n1")).notice is None
        notice = (await world.reading("n2")).notice
        assert notice is not None
        assert notice.left(world.clock.now()) == pytest.approx(78, abs=3)
    assert world.outcome("late") == 1


@pytest.mark.parametrize("uid", [True, False], ids=["with the uid", "with the name for a uid"])
async def test_a_new_machine_under_an_old_name_is_left_alone(world: World, uid: bool) -> None:
    old = await world.node()
    if not uid:
        old["metadata"]["uid"] = meta.name(old)
    await world.event(old, "SpotInterruption")
    await world.client.delete(NODES, "n1")
    await world.clock.advance(10)
    await world.node()
    async with world.listening():
        assert (await world.reading()).notice is None
    assert world.outcome("former") == 1


async def test_an_event_about_no_node_is_counted_and_forgotten(world: World) -> None:
    async with world.listening():
        await world.event({"metadata": {"name": "n9", "uid": "u9"}}, "SpotInterruption")
        await world.clock.advance(20)
    assert world.outcome("unknown") == 1


async def test_a_notice_is_delivered_when_the_server_returns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write, failures = Announcer._write, iter([Interrupted("cut off"), errors.InternalError("broken")])

    async def stumbling(self: Announcer, name: str, said: Announcement) -> Decision:
        for problem in failures:
            raise problem
        return await write(self, name, said)

    monkeypatch.setattr(Announcer, "_write", stumbling)
    node = await world.node()
    async with world.listening():
        await world.event(node, "SpotInterruption")
        await world.clock.advance(5)
        assert (await world.reading()).notice is not None
    assert world.outcome("marked") == 1


async def test_reasons_and_their_reporters_are_configurable(world: World, tmp_path: Path) -> None:
    path = tmp_path / "marks.yaml"
    path.write_text(
        "marks:\n- {means: notice, place: event, key: Reclaimed, values: [our-agent], provider: ours, lead: 45}\n"
    )
    node = await world.node()
    async with world.listening(node_signals.read(path)):
        await world.event(node, "Reclaimed")
        assert (await world.reading()).notice is None
        await world.event(node, "Reclaimed", source={"component": "our-agent"})
        taint = (await world.client.get(NODES, "n1"))["spec"]["taints"][0]
        assert (taint["key"], taint["value"]) == (TERMINATING, "ours")


def test_events_of_the_newer_kind_are_read_as_well() -> None:
    event = {
        "metadata": {"uid": "e"},
        "involvedObject": {"kind": "Node", "name": "n1", "uid": "u"},
        "reason": "SpotInterrupted",
        "eventTime": "2026-03-01T12:00:00.000000Z",
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "karpenter",
    }
    found = node_events.read(event, NodeSignals())
    assert found is not None
    said = found[1]
    assert (said.kind, said.provider, said.uid, said.id) == (Kind.TERMINATION, "karpenter", "u", "e")
    assert said.deadline == times.parse("2026-03-01T12:02:00Z")
    assert node_events.read({**event, "involvedObject": {"kind": "Pod", "name": "p"}}, NodeSignals()) is None
