"""Fragmentation over arrived load: what the report shows equals what a hand computes, and is in every form of it."""

import numpy as np
import pytest

from rota.simulator import clusters, experiment, html_report, policies
from rota.simulator.experiment import Report
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace

SHARE = "rota.dev/gpu-milli"


def report() -> Report:
    """Two nodes with a GPU each; pods that take 600 thousandths of one arrive one by one."""
    trace = Trace(
        name="shares",
        nodes=clusters.nodes([f"2xcpu=8,gpu=1,{SHARE}=1000"]),
        templates=[clusters.pod(f"cpu=1,{SHARE}=600")],
        at=np.arange(3.0),
        duration=np.full(3, np.inf),
        template=np.zeros(3, dtype=np.int64),
        names=["a", "b", "c"],
    )
    runner = experiment.arrivals_runner(ties=TieRule.NAME, tune=None, percents=(30, 60, 90))
    return experiment.run([trace], [policies.named("fgd")], [1], runner, conditions={})


def test_what_no_typical_pod_can_use_is_fragmented() -> None:
    (result,) = report().document()["results"]
    # After the first pod 400 of 2,000 thousandths are of no use to another one, after the second 800.
    assert result["fragmentation_at_30"] == pytest.approx(20)
    assert result["fragmentation_at_60"] == pytest.approx(40)
    assert result["fragmentation_at_90"] == pytest.approx(40), "the third pod finds no device"
    curve = result["curves"]["fragmentation"]
    assert (curve["x"][-1], curve["y"][-1]) == (90, pytest.approx(40))


def test_the_page_has_the_plots() -> None:
    page = html_report.page(report())
    for title in ("allocation", "fragmentation", "power"):
        assert f"<h3>{title}</h3><svg" in page
