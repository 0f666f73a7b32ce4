"""Volcano's kinds are served by a server that is asked to."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from rota.api.batch import definitions, kinds
from rota.testing.api import ApiServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest_asyncio.fixture
async def batch() -> AsyncIterator[ApiServer]:
    async with ApiServer(batch_kinds=True) as server:
        yield server


async def test_every_kind_is_served_when_the_server_starts(batch: ApiServer) -> None:
    for definition in definitions.definitions():
        spec = definition["spec"]
        listed = await batch.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
        assert listed.code == 200, definition["metadata"]["name"]
        assert listed.json["kind"] == spec["names"]["listKind"]


async def test_there_is_a_root_queue_and_a_default_queue(batch: ApiServer) -> None:
    listed = (await batch.get(QUEUES)).json
    assert {one["metadata"]["name"]: one["spec"].get("parent") for one in listed["items"]} == {
        kinds.ROOT_QUEUE: None,
        kinds.DEFAULT_QUEUE: kinds.ROOT_QUEUE,
    }


async def test_the_status_of_a_group_is_written_with_the_group(batch: ApiServer) -> None:
    group: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2, "minResources": {"cpu": 2, "memory": "1Gi"}},
        "status": {"phase": "Pending"},
    }
    created = await batch.post(GROUPS, group)
    assert created.code == 201, created.json
    assert created.json["spec"]["queue"] == kinds.DEFAULT_QUEUE
    written = await batch.put(f"{GROUPS}/g", {**created.json, "status": {"phase": "Inqueue"}})
    assert written.json["status"] == {"phase": "Inqueue"}


async def test_a_server_updates_the_definitions_of_its_predecessor_and_no_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with ApiServer(batch_kinds=True, store_url=url) as first:
        for name, annotated in (("podgroups.scheduling.volcano.sh", True), ("queues.scheduling.volcano.sh", False)):
            present = (await first.get(f"{DEFINITIONS}/{name}")).json
            present["spec"]["versions"][0]["additionalPrinterColumns"] = []
            if not annotated:
                present["metadata"]["annotations"] = {}
            assert (await first.put(f"{DEFINITIONS}/{name}", present)).code == 200
    async with ApiServer(batch_kinds=True, store_url=url) as second:
        groups = (await second.get(f"{DEFINITIONS}/podgroups.scheduling.volcano.sh")).json
        queues = (await second.get(f"{DEFINITIONS}/queues.scheduling.volcano.sh")).json
    assert groups["spec"]["versions"][0]["additionalPrinterColumns"]
    assert not queues["spec"]["versions"][0].get("additionalPrinterColumns")
