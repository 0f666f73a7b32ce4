"""Measurements from Prometheus: its answers as objects of metrics.k8s.io, and a Prometheus that is not well."""

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner

from rota.cli.forecaster import command
from rota.client import prometheus_queries, prometheus_samples
from rota.forecast.node_series import NodeSeries
from rota.forecaster import kinds, rights
from rota.forecaster.forecaster import Forecaster, PrometheusSettings, Settings
from rota.forecaster.metrics_sources import PrometheusMetrics
from rota.testing.schedulers import cluster


def answer(*samples: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


class Prometheus:
    """Answers queries as a test says, by a part of the query."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.status = 200
        self.asked: list[tuple[str, str]] = []

    async def reply(self, request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        self.asked.append((query, request.headers.get("Authorization", "")))
        (found,) = [given for part, given in self.answers.items() if part in query]
        return web.json_response(found, status=self.status)


@contextlib.asynccontextmanager
async def prometheus(**options: Any) -> AsyncIterator[tuple[Prometheus, PrometheusMetrics]]:
    served = Prometheus()
    app = web.Application()
    app.router.add_post("/api/v1/query", served.reply)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as session:
            yield served, PrometheusMetrics(session, f"http://127.0.0.1:{runner.addresses[0][1]}/", **options)
    finally:
        await runner.cleanup()


async def test_nodes_and_pods_are_as_from_the_metrics_api(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with prometheus(node_label="instance", token_file=token) as (served, source):
        served.answers = {
            "container_cpu_usage_seconds_total": answer(
                ({"instance": "n1"}, "1.5"), ({"instance": "n2"}, "NaN"), ({}, "7")
            ),
            "container_memory_working_set_bytes": answer(({"instance": "n1"}, "1000000000")),
        }
        assert await source.nodes() == [
            {"metadata": {"name": "n1"}, "usage": {"cpu": "1500000000n", "memory": "1000000000"}}
        ]
        assert 'sum by (instance) (rate(container_cpu_usage_seconds_total{id="/"}[120s]))' in served.asked[0][0]
        assert {authorization for _, authorization in served.asked} == {"Bearer secret"}
        labels = {"namespace": "default", "pod": "db-0", "container": "c"}
        served.answers = {
            "container_cpu_usage_seconds_total": answer((labels, "0.1"), ({"pod": "x"}, "1")),
            "container_memory_working_set_bytes": answer((labels, "5")),
        }
        assert await source.pods() == [
            {
                "metadata": {"name": "db-0", "namespace": "default"},
                "containers": [{"name": "c", "usage": {"cpu": "100000000n", "memory": "5"}}],
            }
        ]


@pytest.mark.parametrize(
    ("status", "given"),
    [
        (503, {"status": "error", "error": "busy"}),
        (200, {"status": "error", "error": "bad query"}),
        (200, {"status": "success", "data": {"resultType": "matrix", "result": []}}),
        (200, {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}}]}}),
        (200, ["no", "answer"]),
    ],
)
async def test_a_prometheus_that_is_not_well_measures_nothing(status: int, given: Any) -> None:
    async with prometheus() as (served, source):
        served.status, served.answers = status, {"container": given}
        assert list(await source.nodes()) == []
        assert list(await source.pods()) == []


async def test_an_answer_that_comes_in_many_parts_is_read_to_its_end() -> None:
    nodes = 20_000
    async with prometheus() as (served, source):
        served.answers = {"container": answer(*(({"node": f"node-{number}"}, "1") for number in range(nodes)))}
        assert len(await source.nodes()) == nodes


async def test_an_answer_without_end_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_queries, "_MOST_BYTES", 1000)
    async with prometheus() as (served, source):
        served.answers = {"container": answer(*(({"node": f"node-{number}"}, "1") for number in range(100)))}
        assert list(await source.nodes()) == []


async def test_a_prometheus_that_is_gone_measures_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with aiohttp.ClientSession() as session:
        assert list(await PrometheusMetrics(session, f"http://127.0.0.1:{port}").nodes()) == []


async def test_forecasts_name_their_source_and_need_no_metrics_api() -> None:
    async with prometheus() as (served, source), cluster() as running:
        await running.add_node("n1")
        served.answers = {
            "container_cpu_usage_seconds_total": answer(({"node": "n1"}, "2")),
            "container_memory_working_set_bytes": answer(({"node": "n1"}, "1024")),
        }
        settings = Settings(prometheus=PrometheusSettings(url="http://x"))
        assert not any(right.group == "metrics.k8s.io" for right in rights.needed(settings))
        made = Forecaster(running.client, settings, clock=running.clock, rng=running.rng, identity="one", source=source)
        await made.install()
        assert await made.step(NodeSeries(settings.fleet, source=source.name)) == 1
        found = await running.client.get(kinds.FORECASTS, "n1")
        assert found["status"]["source"] == "Prometheus"
        assert found["status"]["resources"][0]["used"] == "2000m"


def test_the_window_of_rates_grows_with_the_interval() -> None:
    assert "[600s]" in prometheus_samples.pod_queries(300.0)["cpu"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prometheus", "localhost:9090"], "is no address of a Prometheus"),
        (["--prometheus", "http://x", "--prometheus-node-label", 'a="b"'], "is no name of a label"),
        (["--webhooks", "8443"], "over HTTPS only"),
    ],
)
def test_options_that_cannot_be_are_refused(words: list[str], said: str) -> None:
    assert said in str(CliRunner().invoke(command, ["--server", "http://127.0.0.1:1", *words]).exception)
