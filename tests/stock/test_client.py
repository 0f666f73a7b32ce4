"""Our client on the stock kube-apiserver: verbs, informers, elections and events, as on our own server."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.stock.clusters import EVENTS, LEASES, NAMESPACES, PODS, connected

from rota.api import errors, scheme
from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client import pods as pod_actions
from rota.client.elections.elector import Election, LeaderElector
from rota.client.events.correlation import Source as Reporter
from rota.client.events.recorder import EventRecorder
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client, Object, PatchType, Selection
from rota.client.wire import EventType
from rota.kit import system, tasks
from rota.testing import manifests
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = pytest.mark.slow

MAPS = ("", "v1", "configmaps")
DEPLOYMENTS = ("apps", "v1", "deployments")
ACCOUNTS = ("", "v1", "serviceaccounts")
PATIENCE_S = 60.0


@pytest.fixture
async def client(stock_server: StockApiServer) -> AsyncIterator[Client]:
    async with connected(stock_server.kubeconfig()) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"client-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    await client.create(ACCOUNTS, account, namespace=name)
    return name


async def test_every_verb_works(client: Client, namespace: str) -> None:
    made = await client.create(MAPS, manifests.config_map("one", a="1"), namespace=namespace)
    assert (await client.get(MAPS, "one", namespace=namespace))["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(errors.AlreadyExists):
        await client.create(MAPS, manifests.config_map("one"), namespace=namespace)
    made["data"]["b"] = "2"
    newer = await client.update(MAPS, made)
    with pytest.raises(errors.Conflict):
        await client.update(MAPS, made)
    for kind, patch in (
        (PatchType.MERGE, {"data": {"c": "3"}}),
        (PatchType.STRATEGIC, {"data": {"d": "4"}}),
        (PatchType.JSON, [{"op": "add", "path": "/data/e", "value": "5"}]),
    ):
        newer = await client.patch(MAPS, "one", patch, type=kind, namespace=namespace)
    assert newer["data"] == {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
    await client.delete(MAPS, "one", namespace=namespace)
    with pytest.raises(errors.NotFound):
        await client.get(MAPS, "one", namespace=namespace)


async def test_an_apply_takes_fields_only_by_force(client: Client, namespace: str) -> None:
    wanted = manifests.config_map("mine", a="1")
    wanted["metadata"] = {"name": "mine", "namespace": namespace}
    await client.apply(MAPS, wanted, field_manager="one")
    other = {**wanted, "data": {"a": "2"}}
    with pytest.raises(errors.Conflict) as refusal:
        await client.apply(MAPS, other, field_manager="two")
    assert [cause.field for cause in refusal.value.causes] == [".data.a"]
    assert (await client.apply(MAPS, other, field_manager="two", force=True))["data"] == {"a": "2"}


async def test_lists_come_in_pages_of_one_snapshot_and_by_selectors(client: Client, namespace: str) -> None:
    for number in range(7):
        one = manifests.config_map(f"m{number}", labels={"odd": str(number % 2)})
        await client.create(MAPS, one, namespace=namespace)
    everything = await client.list(MAPS, namespace=namespace, limit=2)
    odd = await client.list(MAPS, namespace=namespace, selection=Selection(labels="odd=1"))
    assert len(everything.items) == 7
    assert [one["metadata"]["name"] for one in odd.items] == ["m1", "m3", "m5"]


async def test_a_watch_tells_what_happens_after_a_revision(client: Client, namespace: str) -> None:
    start = await client.list(MAPS, namespace=namespace)
    await client.create(MAPS, manifests.config_map("one"), namespace=namespace)
    await client.patch(MAPS, "one", {"data": {"a": "1"}}, namespace=namespace)
    await client.delete(MAPS, "one", namespace=namespace)
    told = []
    async with client.watch(MAPS, namespace=namespace, resource_version=start.resource_version) as events:
        async for event in events:
            told.append(event.type)
            if event.type is EventType.DELETED:
                break
    assert told == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]


async def test_pods_are_bound_evicted_and_scaled(client: Client, namespace: str) -> None:
    await client.create(PODS, manifests.pod("p"), namespace=namespace)
    await pod_actions.bind(client, pod_actions.Binding(namespace=namespace, pod="p", node="far-away"))
    assert (await client.get(PODS, "p", namespace=namespace))["spec"]["nodeName"] == "far-away"
    await client.create(DEPLOYMENTS, manifests.deployment("web"), namespace=namespace)
    await pod_actions.scale(client, _kind(DEPLOYMENTS), "web", namespace=namespace, replicas=4)
    assert (await client.get(DEPLOYMENTS, "web", namespace=namespace))["spec"]["replicas"] == 4
    await pod_actions.evict(client, "p", namespace=namespace)
    assert "deletionTimestamp" in (await client.get(PODS, "p", namespace=namespace))["metadata"]


async def test_an_informer_follows_a_collection(client: Client, namespace: str) -> None:
    clock, rng = system.SystemClock(), system.rng()
    await client.create(MAPS, manifests.config_map("before"), namespace=namespace)
    source = Source(client=client, target=_kind(MAPS), namespace=namespace)
    informer = Informer[Object](source, decode=msgspec.json.decode, clock=clock, rng=rng)
    gone = asyncio.Event()

    def changed(key: Key, old: Object | None, new: Object | None) -> None:
        if key.name == "during" and new is None:
            gone.set()

    informer.add_handler(changed)
    async with tasks.Supervisor("test", clock=clock, rng=rng) as parts, asyncio.timeout(PATIENCE_S):
        parts.start("maps", informer.run)
        await informer.wait_synced()
        assert informer.cache.get("before", namespace) is not None
        await client.create(MAPS, manifests.config_map("during"), namespace=namespace)
        await client.delete(MAPS, "during", namespace=namespace)
        await gone.wait()
    assert informer.cache.get("during", namespace) is None


async def test_one_of_two_candidates_leads_and_the_other_follows_when_it_goes(client: Client, namespace: str) -> None:
    clock, rng = system.SystemClock(), system.rng()
    leading: asyncio.Queue[str] = asyncio.Queue()

    async def campaign(identity: str) -> None:
        election = Election(name="race", namespace=namespace, identity=identity)
        elector = LeaderElector(client, election, clock=clock, rng=rng)

        async def lead(_: object) -> None:
            leading.put_nowait(identity)
            await asyncio.Event().wait()

        await elector.run(lead)

    async with asyncio.timeout(60):
        first = asyncio.create_task(campaign("a"))
        assert await leading.get() == "a"
        second = asyncio.create_task(campaign("b"))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await leading.get() == "b"
        lease = await client.get(LEASES, "race", namespace=namespace)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    assert lease["spec"]["holderIdentity"] == "b"


async def test_events_are_recorded_and_counted(client: Client, namespace: str) -> None:
    clock, rng = system.SystemClock(), system.rng()
    pod = await client.create(PODS, manifests.pod("p"), namespace=namespace)
    recorder = EventRecorder(client, Reporter(component="rota-test"), clock=clock, rng=rng)
    async with tasks.Supervisor("test", clock=clock, rng=rng) as parts, asyncio.timeout(PATIENCE_S):
        parts.start("events", recorder.run)
        for _ in range(3):
            recorder.event(pod, "Normal", "Waiting", "nothing to do", action="Testing")
        while not (found := (await client.list(EVENTS, namespace=namespace)).items):  # noqa: ASYNC110  # a server's affair
            await asyncio.sleep(0.1)
    assert (found[0]["reason"], found[0]["involvedObject"]["name"]) == ("Waiting", "p")


async def test_everything_that_is_served_is_discovered(client: Client) -> None:
    found = await discovery.discover(client)
    assert not found.failed
    assert {("", "pods"), ("apps", "deployments"), ("coordination.k8s.io", "leases")} <= {
        one.group_resource for one in found.types
    }


def _kind(target: tuple[str, str, str]) -> ResourceType:
    found = scheme.builtin().by_resource(*target)
    assert found is not None
    return found
