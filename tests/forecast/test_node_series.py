"""What the forecaster publishes about nodes, and when."""

from typing import Any

import pytest

from rota.api import resources
from rota.cli.commands import node_forecast
from rota.forecast.fleet import FleetSettings
from rota.forecast.node_series import AT_LEAST_S, NodeSeries, workers_own
from rota.testing.clusters import Document, make_node, make_pod

SETTINGS = FleetSettings(interval_s=60.0, history_s=1200.0, warm_up_s=300.0, horizon_s=600.0)


def measured(node: str, cpu: int, memory: str = "1Gi") -> Document:
    return {"metadata": {"name": node}, "usage": {"cpu": f"{cpu}m", "memory": memory}}


def placed(name: str, node: str, cpu: str = "2") -> Document:
    made = make_pod(name, containers=[{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}])
    made["spec"]["nodeName"] = node
    return made


NODES = [make_node("a", cpu="10", memory="10Gi", pods="10"), make_node("b", cpu="10", memory="10Gi", pods="10")]
PODS = [placed("p", "a"), placed("q", "a", "1")]


def figures(document: Document, resource: str = "cpu") -> dict[str, Any]:
    (found,) = (each for each in document["status"]["resources"] if each["resource"] == resource)
    return dict(found)


def after(series: NodeSeries, minutes: int, *, used: int = 1000) -> dict[str, Document]:
    """The last published forecast of each node, after so many minutes of constant use on a."""
    found: dict[str, Document] = {}
    for minute in range(minutes):
        series.add(NODES, PODS, [measured("a", used)], minute * 60.0)
        found |= {each["metadata"]["name"]: each for each in series.due(minute * 60.0)}
    return found


def test_a_young_node_and_an_unmeasured_one_count_by_their_requests() -> None:
    found = after(NodeSeries(SETTINGS), 1)
    assert (figures(found["a"])["basis"], figures(found["a"])["peak"]) == ("Cold", "3000m")
    assert (figures(found["b"])["basis"], figures(found["b"])["used"]) == ("Stale", "0m")
    assert found["a"]["status"]["horizonSeconds"] == 600


def test_a_measured_node_has_a_peak_with_a_reserve() -> None:
    found = figures(after(NodeSeries(SETTINGS), 12)["a"])
    assert (found["basis"], found["used"], found["mean"], found["requested"]) == ("Measured", "1000m", "1000m", "3000m")
    # The norm of requests of 2 and 1 cores is 2236 millicores, and half of it is the reserve.
    assert found["peak"] == "2119m"
    assert set(found["history"]) == {"1000m"}


def test_a_steady_node_is_published_seldom_and_a_change_at_once() -> None:
    series = NodeSeries(SETTINGS)
    after(series, 12)
    times = []
    for minute in range(12, 32):
        series.add(NODES, PODS, [measured("a", 1000 + minute)], minute * 60.0)
        times += [minute for each in series.due(minute * 60.0) if each["metadata"]["name"] == "a"]
    assert len(times) == pytest.approx(20 * 60 / AT_LEAST_S, abs=1)
    series.add(NODES, PODS, [measured("a", 5000)], 32 * 60.0)
    assert "a" in {each["metadata"]["name"] for each in series.due(32 * 60.0)}


def test_a_forecast_that_was_not_written_is_due_again() -> None:
    series = NodeSeries(SETTINGS)
    after(series, 1)
    assert series.due(10.0) == []
    series.unpublished("a")
    assert [each["metadata"]["name"] for each in series.due(10.0)] == ["a"]


def test_nodes_come_and_go() -> None:
    series = NodeSeries(SETTINGS)
    after(series, 12)
    many = [make_node(f"n{at}", cpu="10", memory="10Gi", pods="10") for at in range(200)]
    series.add([*many, NODES[0]], PODS, [measured("a", 1000), *(measured(f"n{at}", at) for at in range(200))], 720.0)
    found = {each["metadata"]["name"]: each for each in series.due(900.0)}
    assert len(found) == 201
    assert figures(found["a"])["mean"] == "1000m"
    series.add(NODES, PODS, [measured("a", 1000), measured("b", 7000)], 960.0)
    found = {each["metadata"]["name"]: each for each in series.due(1200.0)}
    assert sorted(found) == ["a", "b"]
    # The row of another node was reused; its history was not.
    assert figures(found["b"])["basis"] == "Stale"
    assert figures(found["b"])["history"] == []


def test_ended_pods_do_not_count() -> None:
    ended = placed("r", "a", "9")
    ended["status"] = {"phase": "Succeeded"}
    series = NodeSeries(SETTINGS)
    series.add(NODES, [*PODS, ended], [], 0.0)
    (found,) = (each for each in series.due(0.0) if each["metadata"]["name"] == "a")
    assert figures(found)["requested"] == "3000m"


def test_the_plot_has_the_past_and_the_band_of_the_forecast() -> None:
    found = after(NodeSeries(SETTINGS), 12)["a"]
    lines = list(node_forecast.lines(figures(found), resources.amount("cpu", "10"), found["status"]))
    assert lines[0] == "cpu: 1 used, 2119m expected within 10 min, 3 requested of 10 (Measured)"
    assert lines[-1].endswith("│▓▓▓▓▓▓▓▓▓▓") or lines[-2].endswith("│▓▓▓▓▓▓▓▓▓▓")
    assert any("│░░░░░░░░░░" in line for line in lines)
    assert "▇" in "".join(lines)


@pytest.mark.parametrize(
    ("observed", "own"),
    [
        ("1970-01-01T01:00:00Z", True),
        ("1970-01-01T00:30:00Z", False),
        ("1970-01-01T01:30:00Z", False),
        (None, False),
    ],
    ids=["now", "long ago", "by a clock that is ahead", "never"],
)
def test_a_worker_counts_while_it_publishes(observed: str | None, own: bool) -> None:
    document = {"metadata": {"name": "a"}, "status": {"source": "Worker", "observedTime": observed}}
    assert workers_own([document], 3600.0) == ({"a"} if own else set())
