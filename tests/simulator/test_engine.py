"""The engine: what holds in every run, and that runs are functions of their input."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.scheduler.core.attempts import Attempt
from rota.simulator import clusters, experiment, html_report, model_options, policies, traces
from rota.simulator.engine import Engine, Options
from rota.simulator.models import Models
from rota.simulator.results import RunResult
from rota.simulator.ties import TieRule
from rota.simulator.traces import FOREVER, Trace

HOUR = Path(__file__).parents[2] / "examples" / "traces" / "hour.jsonl"
DISTURBED = model_options.models(
    bind_latency="uniform:0.1,2",
    attempt_time="0.01",
    grace="5",
    recreate="3",
    failures="exponential:3000/200",
    spot="lifecycle=spot/exponential:1500/60/100",
    pools=["spare:4xcpu=16,memory=64Gi/30/120"],
)


def trace_of(pods: list[tuple[float, float, str]], *, nodes: str = "3xcpu=4,memory=8Gi") -> Trace:
    """Pods of (time, duration, requests), in the order of time."""
    pods = sorted(pods, key=lambda pod: pod[0])
    shapes = sorted({shape for _, _, shape in pods})
    return Trace(
        name="made",
        nodes=clusters.nodes([nodes]),
        templates=[clusters.pod(shape) for shape in shapes],
        at=np.array([at for at, _, _ in pods], dtype=np.float64),
        duration=np.array([duration for _, duration, _ in pods], dtype=np.float64),
        template=np.array([shapes.index(shape) for _, _, shape in pods], dtype=np.int64),
        names=[f"p{number}" for number in range(len(pods))],
    )


def engine_of(trace: Trace, models: Models | None = None, *, seed: int = 1, ties: TieRule = TieRule.NAME) -> Engine:
    options = Options(models=models or Models(), ties=ties)
    return Engine(trace, policies.named("default").load({}), seed=seed, options=options)


def test_a_pod_waits_until_another_has_ended() -> None:
    engine = engine_of(trace_of([(0, 100, "cpu=3"), (10, 50, "cpu=3")], nodes="1xcpu=4,memory=8Gi"))
    figures = engine.run().figures()
    assert (figures["placed"], figures["finished"]) == (2, 2)
    assert figures["wait_max_s"] == pytest.approx(90, abs=0.01)
    assert figures["virtual_time_s"] == pytest.approx(150, abs=0.01)
    # Three of four cores for all 150 seconds, apart from nothing.
    assert figures["utilisation_cpu"] == pytest.approx(75, abs=0.1)


def test_latencies_count_from_the_decision() -> None:
    engine = engine_of(trace_of([(5, 20, "cpu=1")]), model_options.models(bind_latency="2"))
    figures = engine.run().figures()
    assert figures["wait_max_s"] == 2
    assert figures["virtual_time_s"] == 27


def test_an_important_pod_evicts_others_and_their_owner_creates_them_again() -> None:
    small = trace_of([(0, FOREVER, "cpu=3"), (10, 30, "cpu=4")], nodes="1xcpu=4,memory=8Gi")
    important = [
        {**each, "spec": {**each["spec"], "priority": position}} for position, each in enumerate(small.templates)
    ]
    trace = replace(small, templates=important)
    engine = engine_of(trace, model_options.models(grace="4", recreate="1", duration="100"))
    figures = engine.run().figures()
    assert (figures["preempted"], figures["recreated"], figures["finished"]) == (1, 1, 2)
    # The preemptor waits for the grace period, the other one for the preemptor.
    assert max(engine.meters.waits) == pytest.approx(29, abs=1)


def test_a_pool_grows_for_waiting_pods_and_shrinks_when_its_nodes_are_empty() -> None:
    pods = [(0.0, 300.0, "cpu=4")] * 5
    engine = engine_of(trace_of(pods, nodes="1xcpu=4,memory=8Gi"), model_options.models(pools=["spare:3xcpu=8/30/60"]))
    figures = engine.run().figures()
    assert figures["finished"] == 5
    assert figures["nodes_added"] == 2
    assert figures["wait_max_s"] == pytest.approx(40, abs=11)


def test_a_pod_that_never_fits_does_not_keep_a_run_from_its_end() -> None:
    engine = engine_of(trace_of([(0, 5, "cpu=400"), (1, 5, "cpu=1")]), DISTURBED)
    figures = engine.run().figures()
    assert figures["finished"] >= 1
    assert sum(1 for _ in engine.waiting()) == 1


@settings(max_examples=15)
@given(
    pods=st.lists(
        st.tuples(
            st.floats(0, 500), st.floats(0, 300), st.sampled_from(["cpu=1", "cpu=2,memory=1Gi", "cpu=4", "memory=6Gi"])
        ),
        max_size=60,
    ),
    seed=st.integers(0, 100),
    ties=st.sampled_from(list(TieRule)),
)
def test_no_node_is_oversold_and_no_pod_is_lost_from_the_books(
    pods: list[tuple[float, float, str]], seed: int, ties: TieRule
) -> None:
    engine = engine_of(trace_of(pods), DISTURBED, seed=seed, ties=ties)
    cluster = engine.core.cache.cluster

    def sound(attempt: Attempt) -> None:
        assert (cluster.requested[:, : cluster.size] <= cluster.allocatable[:, : cluster.size])[
            :, cluster.alive[: cluster.size]
        ].all()

    engine.observe(sound)
    figures = engine.run().figures()
    there = sum(1 for _ in engine.waiting()) + sum(1 for _ in engine.placed())
    lost = figures["preempted"] + figures["lost"]
    assert len(pods) + figures["recreated"] >= figures["finished"] + there
    assert figures["recreated"] >= lost
    if engine.core.queue:
        assert Counter(each.pod.uid for each in engine.core.queue.entries()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("models", [Models(), DISTURBED])
def test_equal_inputs_give_equal_bytes(models: Models) -> None:
    def page() -> tuple[bytes, str]:
        report = experiment.run(
            [traces.read(HOUR)],
            [policies.named("default")],
            [3],
            experiment.engine_runner(Options(models=models)),
            conditions={"models": models.document()},
        )
        return msgspec.json.encode(report.document()), html_report.page(report)

    assert page() == page()


def test_an_interrupted_experiment_reports_the_runs_that_were_done() -> None:
    runs = 0
    inner = experiment.engine_runner(Options())

    def runner(*arguments: object) -> RunResult:
        nonlocal runs
        runs += 1
        if runs == 3:
            raise KeyboardInterrupt
        return inner(*arguments)  # type: ignore[arg-type]

    trace = trace_of([(0, 5, "cpu=1")])
    report = experiment.run([trace], [policies.named("default")], [1, 2, 3, 4], runner, conditions={})
    assert report.interrupted
    assert report.document()["results"][0]["seeds"] == [1, 2]


def test_the_page_needs_no_network_and_escapes_names() -> None:
    trace = replace(trace_of([(0, 5, "cpu=1"), (1, 9, "cpu=2")]), name="<script>alert(1)</script>")
    runner = experiment.engine_runner(Options())
    report = experiment.run([trace], [policies.named("default")], [1], runner, conditions={"ties": "name"})
    page = html_report.page(report)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page
    assert page.count("<svg") == len(report.runs[0].series)
