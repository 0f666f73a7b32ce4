"""Informers that several parts share."""

import random

import pytest

from rota.client import client_factory
from rota.client.informers.cache import Key, by_namespace, by_node
from rota.client.informers.shared_informers import SharedInformers
from rota.client.verbs import Object
from rota.kit import system, tasks
from rota.testing import manifests
from rota.testing.api import ApiServer

PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")


async def test_a_collection_is_watched_once_for_all_handlers() -> None:
    clock, rng = system.SystemClock(), random.Random(0)
    heard: list[tuple[str, str]] = []

    def part(name: str) -> None:
        def tell(key: Key, _old: Object | None, new: Object | None) -> None:
            heard.append((name, key.name if new is not None else f"not {key.name}"))

        index = {"namespace": by_namespace} if name == "one" else {"node": by_node, "namespace": by_namespace}
        informers.append(shared.informer(PODS, tell, indexers=index))

    async with ApiServer() as api:
        await api.post("/api/v1/namespaces/default/pods", manifests.pod("p", on="n"))
        async with client_factory.to_application(api.app, clock=clock, rng=rng) as client:
            shared = SharedInformers(client, {PODS}, clock=clock, rng=rng)
            informers: list[object] = []
            for name in ("one", "other"):
                part(name)
            assert informers[0] is informers[1]
            assert shared.informer(NODES, lambda *_: None) is None
            async with tasks.Supervisor("test", clock=clock, rng=rng) as running:
                running.start("informers", shared.run)
                found = shared.informer(PODS, lambda *_: None)
                assert found is not None
                await found.wait_synced()
                assert sorted(heard) == [("one", "p"), ("other", "p")]
                assert [one["metadata"]["name"] for one in found.cache.indexed("node", "n")] == ["p"]


async def test_one_name_of_an_index_means_one_thing() -> None:
    clock, rng = system.SystemClock(), random.Random(0)
    async with ApiServer() as api, client_factory.to_application(api.app, clock=clock, rng=rng) as client:
        shared = SharedInformers(client, {PODS}, clock=clock, rng=rng)
        shared.informer(PODS, lambda *_: None, indexers={"place": by_node})
        with pytest.raises(ValueError, match="another index place"):
            shared.informer(PODS, lambda *_: None, indexers={"place": by_namespace})
