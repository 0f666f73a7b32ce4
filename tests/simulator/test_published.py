"""The published study of shared GPUs on OpenB's default trace, which is not part of the repository.

The folder with the authors' files is `ROTA_TEST_OPENB`, or `shared/data/openb` beside the repository.
"""

import os
from pathlib import Path

import pytest

from rota.simulator import arrivals, policies
from rota.simulator.loaders import openb
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace

_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "openb"
OPENB = Path(os.environ.get("ROTA_TEST_OPENB") or _BESIDE)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OPENB.is_dir(), reason="OpenB's files are missing: set ROTA_TEST_OPENB to their folder"),
]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return openb.load(OPENB)


@pytest.mark.parametrize(("policy", "at_100", "at_130"), [("bestfit", 92.86, 93.08), ("fgd", 95.23, 95.39)])
def test_a_run_allocates_as_much_as_was_published(trace: Trace, policy: str, at_100: float, at_130: float) -> None:
    outcome = _outcome(trace, policy)
    assert outcome.at(100) == pytest.approx(at_100, abs=0.5)
    assert outcome.at(130) == pytest.approx(at_130, abs=0.5)


def test_the_capacity_gradient_allocates_more_than_fragmentation_gradient_descent_was_published_with(
    trace: Trace,
) -> None:
    assert _outcome(trace, "cgd").at(130) > 95.39


def _outcome(trace: Trace, policy: str) -> arrivals.ArrivalRun:
    loaded = policies.named(policy).load({"seed": 43, "typicalPods": arrivals.typical(trace)})
    return arrivals.run(arrivals.tuned(trace, 43), loaded, seed=43, ties_by=TieRule.SHUFFLED_NAME)
