"""What a worker says that its machine and its pods use."""

import asyncio
import json
from typing import Any

import pytest
from tests.worker.endpoint.harness import Endpoint, start_pod, until

from rota.client.verbs import Client

pytestmark = pytest.mark.slow
_HOG = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); while :; do :; done"


async def _summary(endpoint: Endpoint) -> dict[str, Any]:
    code, said = await endpoint.get("/stats/summary")
    assert code == 200
    found: dict[str, Any] = json.loads(said)
    return found


async def test_a_busy_pod_is_seen_to_be_busy(client: Client, endpoint: Endpoint) -> None:
    pod = await start_pod(client, "sh", "-c", _HOG)
    found: dict[str, Any] = {}

    async def grown() -> bool:
        found.update(await _summary(endpoint))
        return bool(found["pods"] and found["pods"][0]["memory"]["workingSetBytes"] > 30_000_000)

    await until(grown)
    (one,) = found["pods"]
    assert one["podRef"] == {"name": "p", "namespace": "default", "uid": pod["metadata"]["uid"]}
    (container,) = one["containers"]
    assert container["name"] == "c"
    assert container["cpu"]["usageNanoCores"] > 10**7
    assert container["cpu"]["usageCoreNanoSeconds"] > 0
    assert one["process_stats"]["process_count"] >= 1
    node = found["node"]
    assert node["nodeName"] == "w1"
    assert node["memory"]["workingSetBytes"] > 30_000_000
    assert node["cpu"]["usageNanoCores"] > 10**7
    assert node["fs"]["capacityBytes"] > node["fs"]["availableBytes"] > 0
    assert node["network"]["rxBytes"] >= 0
    assert found["window"] > 0


async def test_concurrent_requests_share_a_sample(endpoint: Endpoint) -> None:
    answers = await asyncio.gather(*(_summary(endpoint) for _ in range(4)))
    assert len({one["node"]["cpu"]["usageCoreNanoSeconds"] for one in answers}) == 1
    assert answers[0]["pods"] == []


async def test_scrapers_find_lines_that_they_know(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    code, said = await endpoint.get("/metrics/resource")
    assert code == 200
    names = {line.partition(" ")[0] for line in said.splitlines()}
    labels = 'namespace="default",pod="p"'
    assert names == {
        "node_cpu_usage_seconds_total",
        "node_memory_working_set_bytes",
        f"pod_cpu_usage_seconds_total{{{labels}}}",
        f"pod_memory_working_set_bytes{{{labels}}}",
        f'container_cpu_usage_seconds_total{{container="c",{labels}}}',
        f'container_memory_working_set_bytes{{container="c",{labels}}}',
        f'container_start_time_seconds{{container="c",{labels}}}',
        "resource_scrape_error",
    }
