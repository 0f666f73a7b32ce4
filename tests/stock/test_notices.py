"""Notices and rights at a stock API server: the same marks, the same names of what is missing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stock.clusters import EVENTS, NODES

from rota.api import meta, times
from rota.client import client_factory, kubeconfig, rights
from rota.client.rights import MissingRights
from rota.client.verbs import Client, Object
from rota.extender import rights as extender_rights
from rota.kit import system
from rota.notices import rights as notice_rights
from rota.notices.announcements import HEARD, Announcement, Kind, Verdict
from rota.notices.announcer import Announcer
from rota.notices.node_events import NodeEvents
from rota.scheduler import rights as scheduler_rights
from rota.spot import node_readings
from rota.spot.node_signals import TERMINATING, NodeSignals
from rota.testing import manifests
from rota.testing.api import PATIENCE_S
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]

SCHEDULER = scheduler_rights.needed(("kube-system", "kube-scheduler"))


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@contextlib.asynccontextmanager
async def connected(config: Path) -> AsyncIterator[Client]:
    clock = system.SystemClock()
    endpoint = kubeconfig.load(config, clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=system.rng()) as client:
        yield client


async def test_the_stock_schedulers_role_lacks_one_right_that_rota_uses(server: StockApiServer) -> None:
    async with connected(server.kubeconfig("system:kube-scheduler")) as client:
        insufficient = await rights.check(client, SCHEDULER, part="scheduler", manifest="m")
        assert rights.in_words(sorted(insufficient, key=str)) == "create pods/eviction"
        assert await rights.missing(client, extender_rights.needed(binds=True)) == []
        with pytest.raises(MissingRights) as told:
            await rights.check(client, notice_rights.needed_by_agent("n1"), part="spot agent", manifest="m.yaml")
        assert str(told.value) == (
            "the spot agent lacks rights: system:kube-scheduler may not patch nodes n1; grant the roles of m.yaml"
        )


async def test_a_notice_is_written_once_and_the_node_tells_it(server: StockApiServer) -> None:
    clock = system.SystemClock()
    async with connected(server.kubeconfig()) as client:
        await client.create(NODES, manifests.node("told"))
        ends = Announcement(kind=Kind.TERMINATION, source="webhook", provider="gcp", deadline=clock.now() + 60, id="x")
        announcers = [Announcer(client, NodeSignals(), clock=clock) for _ in range(4)]
        verdicts = await asyncio.gather(*(one.announce("told", ends) for one in announcers))
        assert sorted(verdict.value for verdict in verdicts) == ["known", "known", "known", "marked"]
        node = await client.get(NODES, "told")
        notice = node_readings.read(node, NodeSignals(), now=clock.now()).notice
        assert notice is not None
        assert (notice.provider, notice.mark) == ("gcp", TERMINATING)
        assert node["metadata"]["annotations"][HEARD] == ends.mark
        over = Announcement(kind=Kind.WITHDRAWN, source="webhook")
        assert await announcers[0].announce("told", over) is Verdict.WITHDRAWN
        assert await announcers[0].announce("told", ends) is Verdict.KNOWN
        assert await announcers[0].announce("nobody", ends) is Verdict.UNKNOWN


async def test_an_event_about_a_node_becomes_a_notice_and_not_for_its_namesake(server: StockApiServer) -> None:
    clock, rng = system.SystemClock(), system.rng()
    async with connected(server.kubeconfig()) as client:
        first = await client.create(NODES, manifests.node("said"))
        await client.create(EVENTS, _event(first, clock.now()), namespace="default")
        await client.delete(NODES, "said")
        again = await client.create(NODES, manifests.node("said"))
        other = await client.create(NODES, manifests.node("other"))
        listener = NodeEvents(
            client, Announcer(client, NodeSignals(), clock=clock), NodeSignals(), clock=clock, rng=rng
        )
        running = asyncio.ensure_future(listener.run())
        try:
            await client.create(EVENTS, _event(other, clock.now()), namespace="default")
            async with asyncio.timeout(PATIENCE_S):
                while not await _taints(client, "other"):  # noqa: ASYNC110 - the server tells only who asks
                    await asyncio.sleep(0.05)
        finally:
            running.cancel()
            await asyncio.wait([running])
        assert await _taints(client, "other") == [TERMINATING]
        assert await _taints(client, "said") == []
        assert meta.uid(again) != meta.uid(first)


def _event(node: Object, now: float) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "e-", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": meta.name(node), "uid": meta.uid(node)},
        "reason": "SpotInterruption",
        "type": "Warning",
        "source": {"component": "aws-node-termination-handler"},
        "firstTimestamp": times.format_time(now),
        "lastTimestamp": times.format_time(now),
    }


async def _taints(client: Client, name: str) -> list[str]:
    return [one["key"] for one in (await client.get(NODES, name))["spec"].get("taints") or ()]
