"""Leader fencing: a write of a former leader is refused, however late and through whatever server it arrives."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.apiserver.server import assembly
from rota.client.elections.elector import Election, LeaderElector, LeadershipLost, Pace
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Answer, Call, Transport
from rota.client.verbs import Client
from rota.kit import system
from rota.testing.api import ApiServer

LEASES = ("coordination.k8s.io", "v1", "leases")
MAPS = ("", "v1", "configmaps")
PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
def client(api: ApiServer) -> Client:
    return Client(InProcessTransport(api.app, clock=system.SystemClock()))


def lease(holder: str, transitions: int) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "duty", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseTransitions": transitions, "leaseDurationSeconds": 10},
    }


async def give(client: Client, holder: str, transitions: int) -> None:
    found = await client.get(LEASES, "duty", namespace="kube-system")
    await client.update(LEASES, {**found, "spec": lease(holder, transitions)["spec"]})


def in_term(client: Client, holder: str, transitions: int) -> Client:
    return client.with_settings(term=lambda: f"kube-system/duty/{transitions}/{holder}")


def note(name: str, text: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


async def test_writes_of_a_term_end_with_it(client: Client) -> None:
    await client.create(LEASES, lease("a", 0))
    a, b = in_term(client, "a", 0), in_term(client, "b", 1)
    made = await a.create(MAPS, note("n", "by a"))
    await give(client, "a", 0)  # renewals are not the end of it
    made = await a.update(MAPS, {**made, "data": {"text": "again"}})
    with pytest.raises(errors.Conflict, match=r"the term of b .* is over: a holds it"):
        await b.update(MAPS, {**made, "data": {"text": "too early"}})

    await give(client, "b", 1)

    for late in (
        a.update(MAPS, {**made, "data": {"text": "late"}}),
        a.create(MAPS, note("other")),
        a.patch(MAPS, "n", {"data": {"text": "late"}}, namespace="default"),
        a.delete(MAPS, "n", namespace="default"),
    ):
        with pytest.raises(errors.Conflict, match="the term of a as the holder of the lease kube-system/duty is over"):
            await late
    assert (await a.get(MAPS, "n", namespace="default"))["data"] == {"text": "again"}
    await b.update(MAPS, {**made, "data": {"text": "by b"}})


async def test_a_binding_of_a_former_leader_is_refused(client: Client) -> None:
    await client.create(LEASES, lease("a", 0))
    status = {"allocatable": {"cpu": "4", "pods": "10"}}
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    for name in ("p1", "p2"):
        metadata = {"name": name, "namespace": "default"}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def binding(name: str) -> dict[str, Any]:
        target = {"kind": "Node", "name": "n1"}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}

    await in_term(client, "a", 0).create(PODS, binding("p1"), name="p1", namespace="default", subresource="binding")
    await give(client, "b", 1)
    with pytest.raises(errors.Conflict, match="is over: b holds it"):
        await in_term(client, "a", 0).create(PODS, binding("p2"), name="p2", namespace="default", subresource="binding")
    assert "nodeName" not in (await client.get(PODS, "p2", namespace="default"))["spec"]


async def test_a_lease_that_is_given_back_or_deleted_ends_the_term(client: Client) -> None:
    await client.create(LEASES, lease("a", 0))
    a = in_term(client, "a", 0)
    await a.create(MAPS, note("n1"))
    await give(client, "", 0)
    with pytest.raises(errors.Conflict, match="it has no holder"):
        await a.create(MAPS, note("n2"))
    await give(client, "a", 0)
    await a.create(MAPS, note("n3"))
    await client.delete(LEASES, "duty", namespace="kube-system")
    with pytest.raises(errors.Conflict, match="it has no holder"):
        await a.create(MAPS, note("n4"))


@pytest.mark.parametrize("said", ["duty", "kube-system/duty", "kube-system/duty/x/a", "kube-system/duty/1/"])
async def test_a_term_that_is_none_is_said(client: Client, said: str) -> None:
    with pytest.raises(errors.BadRequest, match="namespace/name/transitions/holder"):
        await client.with_settings(term=lambda: said).create(MAPS, note("n"))


async def test_a_server_that_does_not_know_of_the_takeover_refuses_too(api: ApiServer, client: Client) -> None:
    """The store checks the precondition: a server's cache of terms only saves a read."""
    await client.create(LEASES, lease("a", 0))
    clock = system.SystemClock()
    async with assembly.server(api.store, clock=clock, rng=random.Random(1)) as second:
        elsewhere = Client(InProcessTransport(second, clock=clock))
        await in_term(elsewhere, "a", 0).create(MAPS, note("n1"))
        await give(client, "b", 1)
        with pytest.raises(errors.Conflict, match="is over: b holds it"):
            await in_term(elsewhere, "a", 0).create(MAPS, note("n2"))
        await in_term(elsewhere, "b", 1).create(MAPS, note("n3"))


class Sleeper:
    """A transport on which, from some moment on, nothing arrives until it is released."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.awake = asyncio.Event()
        self.awake.set()

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        await self.awake.wait()
        async with self._inner.open(call) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.slow
async def test_a_leader_that_falls_asleep_before_its_write_wakes_up_too_late(api: ApiServer) -> None:
    clock, rng = system.SystemClock(), random.Random(0)
    pace = Pace(lease_duration_s=1, renew_deadline_s=0.8, retry_period_s=0.1)
    way = Sleeper(InProcessTransport(api.app, clock=clock))
    incumbent, led = LeaderWrites(), asyncio.Event()
    writer = Client(way).with_settings(term=incumbent.header)
    first = LeaderElector(Client(way), Election(name="duty", identity="first", pace=pace), clock=clock, rng=rng)

    async def lead() -> None:
        led.set()
        await asyncio.Event().wait()

    leading = asyncio.create_task(incumbent.run(first, lead))
    await asyncio.wait_for(led.wait(), 10)
    await writer.create(MAPS, note("in-time"))
    way.awake.clear()
    late = asyncio.create_task(writer.create(MAPS, note("late")))

    taken = asyncio.Event()

    async def take() -> None:
        taken.set()
        await asyncio.Event().wait()

    straight = Client(InProcessTransport(api.app, clock=clock))
    second = LeaderElector(straight, Election(name="duty", identity="second", pace=pace), clock=clock, rng=rng)
    following = asyncio.create_task(second.run(lambda _: take()))
    await asyncio.wait_for(taken.wait(), 10)

    way.awake.set()
    with pytest.raises(errors.Conflict, match=r"the term of first .* is over: second holds it"):
        await late
    for task in (leading, following):
        task.cancel()
    await asyncio.gather(leading, following, return_exceptions=True)


@pytest.mark.slow
async def test_a_returning_leader_gets_a_new_term(api: ApiServer) -> None:
    """Writes of a former process of this name, perhaps a child, are refused."""
    clock, rng = system.SystemClock(), random.Random(0)
    pace = Pace(lease_duration_s=3, renew_deadline_s=2.0, retry_period_s=0.1)
    election = Election(name="duty", identity="master", pace=pace)
    client = Client(InProcessTransport(api.app, clock=clock))

    async def lead(incumbent: LeaderWrites, led: asyncio.Event) -> None:
        async def work() -> None:
            led.set()
            await asyncio.Event().wait()

        elector = LeaderElector(client, election, clock=clock, rng=rng)
        await incumbent.run(elector, work)

    former, latter = (LeaderWrites(), asyncio.Event()), (LeaderWrites(), asyncio.Event())
    first = asyncio.create_task(lead(*former))
    await asyncio.wait_for(former[1].wait(), 10)
    second = asyncio.create_task(lead(*latter))
    await asyncio.wait_for(latter[1].wait(), 2)
    with pytest.raises(errors.Conflict, match="is over"):
        await client.with_settings(term=former[0].header).create(MAPS, note("late"))
    await client.with_settings(term=latter[0].header).create(MAPS, note("in-time"))
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(first, 10)
    assert not second.done()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
