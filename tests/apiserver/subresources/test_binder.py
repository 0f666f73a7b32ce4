import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.apiserver.subresources.harness import Server, serving

from rota.api import errors, resources
from rota.apiserver.node_allocations import pod_shares
from rota.apiserver.subresources.binder import NODES
from rota.kit import system
from rota.store import store_factory
from rota.store.store_interface import Store


async def _open(url: str) -> Store:
    return await store_factory.open_store(url, time=system.SystemClock(), rng=random.Random(0))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    store = await _open("memory://")
    async with serving(store) as one:
        yield one
    await store.close()


def _cause(error: errors.ApiError | None, kind: str, field: str = "") -> str:
    assert error is not None
    return next(cause.message for cause in error.causes if cause.type == kind and cause.field == field)


async def test_a_pod_that_fits_is_bound_and_says_so_in_its_conditions(server: Server) -> None:
    await server.add_node("n1", cpu="2", memory="1Gi", pods="10")
    await server.add_pod("a", {"cpu": "1"})
    assert await server.bind(("a", "n1")) == [None]
    pod = await server.pod("a")
    assert pod["spec"]["nodeName"] == "n1"
    assert [(one["type"], one["status"]) for one in pod["status"]["conditions"]] == [("PodScheduled", "True")]


async def test_a_refusal_names_the_collision_and_the_nodes_fresh_state(server: Server) -> None:
    await server.add_node("n1", cpu="1", memory="1Gi", pods="10", example_com__gpu="2")
    await server.add_pod("a", {"cpu": "700m", "memory": "256Mi"})
    await server.add_pod("b", {"cpu": "500m", "example.com/gpu": "3"})
    assert await server.bind(("a", "n1")) == [None]
    (error,) = await server.bind(("b", "n1"))
    assert error is not None
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "b": node "n1" has insufficient capacity: '
        "Insufficient cpu: requested 500m, free 300m; Insufficient example.com/gpu: requested 3, free 2"
    )
    assert _cause(error, "InsufficientResource", "cpu") == "Insufficient cpu: requested 500m, free 300m"
    node = await server.registry.read(server.registry.resource(NODES), "", "n1")
    assert _cause(error, "NodeResourceVersion") == node.object["metadata"]["resourceVersion"]
    assert _cause(error, "NodeFree", "cpu") == "300m"
    assert _cause(error, "NodeFree", "memory") == "768Mi"
    assert _cause(error, "NodeFree", "pods") == "9"
    assert "nodeName" not in (await server.pod("b"))["spec"]


async def test_a_full_node_takes_no_pod_that_asks_for_nothing(server: Server) -> None:
    await server.add_node("n1", cpu="1", pods="1")
    await server.add_pod("a")
    await server.add_pod("b")
    verdicts = await server.bind(("a", "n1"), ("b", "n1"))
    assert verdicts[0] is None
    assert _cause(verdicts[1], "InsufficientResource", "pods") == "Too many pods: requested 1, free 0"


async def test_a_host_port_is_given_once(server: Server) -> None:
    await server.add_node("n1", cpu="1", pods="10")
    await server.add_pod("a", ports=[8080])
    await server.add_pod("b", ports=[8080])
    assert await server.bind(("a", "n1")) == [None]
    (error,) = await server.bind(("b", "n1"))
    assert _cause(error, "PortConflict", "0.0.0.0/TCP/8080") == "host port 0.0.0.0/TCP/8080 is taken"


async def test_a_bound_a_deleted_and_a_missing_pod_are_refused_in_upstreams_words(server: Server) -> None:
    await server.add_node("n1", cpu="1", pods="10")
    await server.add_pod("a")
    await server.add_pod("b", finalizers=["example.com/keep"])
    await server.delete_pod("b")
    assert await server.bind(("a", "n1")) == [None]
    bound, deleted, missing = await server.bind(("a", "n1"), ("b", "n1"), ("c", "n1"))
    assert str(bound) == ('Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"')
    assert str(deleted) == (
        'Operation cannot be fulfilled on pods/binding "b": pod b is being deleted, cannot be assigned to a host'
    )
    assert str(missing) == 'pods "c" not found'


async def test_a_node_that_does_not_exist_is_a_conflict(server: Server) -> None:
    await server.add_pod("a")
    (error,) = await server.bind(("a", "nowhere"))
    assert error is not None
    assert error.code == 409
    assert _cause(error, "NodeNotFound") == "nowhere"


@pytest.mark.parametrize("ending", ["deleted", "Succeeded", "Failed"])
async def test_room_is_free_again_as_soon_as_a_pod_has_ended(server: Server, ending: str) -> None:
    await server.add_node("n1", cpu="1", pods="1")
    await server.add_pod("a", {"cpu": "1"}, [80])
    await server.add_pod("b", {"cpu": "1"}, [80])
    assert await server.bind(("a", "n1")) == [None]
    if ending == "deleted":
        await server.delete_pod("a")
    else:
        await server.finish_pod("a", ending)
    assert await server.bind(("b", "n1")) == [None]


async def test_a_pod_created_with_a_node_takes_its_share_of_it(server: Server) -> None:
    await server.add_node("n1", cpu="1", pods="10")
    await server.add_pod("daemon", {"cpu": "800m"}, node="n1")
    await server.add_pod("a", {"cpu": "500m"})
    (error,) = await server.bind(("a", "n1"))
    assert _cause(error, "NodeFree", "cpu") == "200m"
    with pytest.raises(errors.Conflict, match='pods "late": node "n1" has insufficient capacity: Insufficient cpu'):
        await server.add_pod("late", {"cpu": "300m"}, node="n1")


async def test_a_mirror_pod_reports_what_runs_and_is_not_refused(server: Server) -> None:
    await server.add_node("n1", cpu="1", pods="10")
    await server.add_pod("static", {"cpu": "3"}, node="n1", annotations={"kubernetes.io/config.mirror": "x"})
    await server.add_pod("a", {"cpu": "1m"})
    (error,) = await server.bind(("a", "n1"))
    assert _cause(error, "NodeFree", "cpu") == "-2"


async def test_an_atomic_batch_binds_all_or_none(server: Server) -> None:
    await server.add_node("n1", cpu="2", pods="10")
    for name in ("a", "b", "c"):
        await server.add_pod(name, {"cpu": "1"})
    verdicts = await server.bind(("a", "n1"), ("b", "n1"), ("c", "n1"), atomic=True)
    assert [verdict and verdict.code for verdict in verdicts] == [409, 409, 409]
    assert "others of its pods cannot be bound" in str(verdicts[0])
    assert "Insufficient cpu" in str(verdicts[2])
    assert await server.bind(("a", "n1"), ("b", "n1"), atomic=True) == [None, None]


@pytest.mark.slow
async def test_a_batch_larger_than_a_transaction_is_bound_in_several(server: Server) -> None:
    await server.add_node("n1", cpu="1000", pods="290")
    for number in range(300):
        await server.add_pod(f"p{number}", {"cpu": "1"})
    verdicts = await server.bind(*((f"p{number}", "n1") for number in range(300)))
    assert verdicts[:290] == [None] * 290
    assert all(verdict is not None for verdict in verdicts[290:])


async def test_without_the_check_a_node_is_not_even_looked_at() -> None:
    store = await _open("memory://")
    async with serving(store, check=False) as server:
        await server.add_pod("a", {"cpu": "1"})
        assert await server.bind(("a", "nowhere")) == [None]
        assert await server.bind(("a", "nowhere")) != [None]
    await store.close()


async def test_without_an_index_pods_are_listed_and_the_verdict_is_the_same() -> None:
    store = await _open("memory://")
    async with serving(store, indexed=False) as server:
        await server.add_node("n1", cpu="1", pods="10")
        await server.add_pod("a", {"cpu": "1"})
        await server.add_pod("b", {"cpu": "1"})
        assert await server.bind(("a", "n1")) == [None]
        assert await server.bind(("b", "n1")) != [None]
    await store.close()


#: What pods of the race ask for: little of much, so that nodes fill up in every dimension.
_PODS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "cpu": st.sampled_from(["100m", "500m", "1"]),
                "memory": st.sampled_from(["64Mi", "256Mi"]),
                "example.com/gpu": st.just("1"),
            },
        ),
        st.lists(st.sampled_from([80, 81]), max_size=1),
    ),
    min_size=4,
    max_size=16,
)


@dataclass
class _Race:
    """Several servers bind the same pods to the same two nodes, while pods come with nodes, finish and go."""

    servers: list[Server]
    wanted: list[tuple[dict[str, str], list[int]]]
    rng: random.Random
    wins: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        first = self.servers[0]
        await first.add_node("n1", cpu="2", memory="512Mi", pods="4", example_com__gpu="2")
        await first.add_node("n2", cpu="1", memory="1Gi", pods="3")
        for number, (requests, ports) in enumerate(self.wanted):
            await first.add_pod(f"p{number}", requests, ports)
        await asyncio.gather(*map(self._bind_all, self.servers), self._come_and_go(self.servers[-1]), self._look(first))
        await _assert_nothing_is_oversold(first)
        pods = await first.pods()
        bound = {one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")}
        assert all(count == 1 for count in self.wins.values()), self.wins
        assert bound == self.wins.keys() | {name for name in bound if name.startswith("d")}
        await _assert_what_is_freed_can_be_had(self.servers[1], pods)

    async def _bind_all(self, server: Server) -> None:
        order = list(range(len(self.wanted)))
        self.rng.shuffle(order)
        for number in order:
            node, names = self._node(), [f"p{number}"]
            if self.rng.random() < 0.3 and number + 1 < len(self.wanted):
                names.append(f"p{number + 1}")
            verdicts = await server.bind(*((name, node) for name in names), atomic=self.rng.random() < 0.5)
            for name, verdict in zip(names, verdicts, strict=True):
                assert verdict is None or verdict.code in {404, 409}
                self.wins[name] += verdict is None
        self.wins = +self.wins

    async def _come_and_go(self, server: Server) -> None:
        for number, (requests, ports) in enumerate(self.wanted[:4]):
            try:
                await server.add_pod(f"d{number}", requests, ports, node=self._node())
            except errors.Conflict:
                continue
            await (server.finish_pod if number % 2 else server.delete_pod)(f"d{number}")

    async def _look(self, server: Server) -> None:
        for _ in range(20):
            await _assert_nothing_is_oversold(server)
            await asyncio.sleep(0)

    def _node(self) -> str:
        return self.rng.choice(["n1", "n2"])


async def _race(urls: list[str], wanted: list[tuple[dict[str, str], list[int]]], seed: int) -> None:
    """Four servers on as many stores as there are URLs; the third has no index, which must not matter."""
    async with contextlib.AsyncExitStack() as exits:
        stores = []
        for url in urls:
            stores.append(await _open(url))
            exits.push_async_callback(stores[-1].close)
        servers = [
            await exits.enter_async_context(serving(stores[number % len(stores)], seed=number, indexed=number != 2))
            for number in range(4)
        ]
        await _Race(servers, wanted, random.Random(seed)).run()


async def _assert_nothing_is_oversold(server: Server) -> None:
    held: dict[str, list[pod_shares.PodAllocation]] = {}
    for pod in await server.pods():
        node = pod["spec"].get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in pod_shares.FINISHED:
            held.setdefault(node, []).append(pod_shares.of_pod(pod))
    for name, found in held.items():
        node_object: Any = (await server.registry.read(server.registry.resource(NODES), "", name)).object
        left = pod_shares.free(resources.node_allocatable(node_object), pod_shares.total(found))
        assert all(amount >= 0 for amount in left.values()), (name, left)
        ports = [port for share in found for port in share.ports]
        assert len(ports) == len(set(ports)), (name, ports)


async def _assert_what_is_freed_can_be_had(server: Server, pods: list[Any]) -> None:
    for pod in pods:
        await server.delete_pod(pod["metadata"]["name"])
    await server.add_pod("last", {"cpu": "2", "memory": "512Mi", "example.com/gpu": "2"}, [80, 81])
    assert await server.bind(("last", "n1")) == [None]


def _wanted(seed: int) -> list[tuple[dict[str, str], list[int]]]:
    rng = random.Random(seed)
    return [
        (rng.choice([{"cpu": "500m"}, {"memory": "128Mi"}, {"cpu": "1", "example.com/gpu": "1"}, {}]), ports)
        for ports in ([], [80], [], [81], [], [80], [], [], [], [])
    ]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=_PODS, seed=st.integers(0, 2**16))
def test_many_binders_on_one_store_never_oversell_a_node(
    wanted: list[tuple[dict[str, str], list[int]]], seed: int
) -> None:
    asyncio.run(_race(["memory://"], wanted, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_servers_of_their_own_on_one_file_never_oversell_a_node(tmp_path: Path, seed: int) -> None:
    # two stores on one file see each other only through it, as two processes do
    await _race([f"sqlite:///{tmp_path}/rota.db"] * 2, _wanted(seed), seed)


@pytest.mark.slow
async def test_servers_of_their_own_on_one_postgres_never_oversell_a_node(postgres_url: str) -> None:
    await _race([postgres_url] * 2, _wanted(5), 5)


@pytest.mark.slow
async def test_servers_of_their_own_on_one_etcd_never_oversell_a_node(etcd_url: str) -> None:
    await _race([etcd_url] * 2, _wanted(6), 6)
