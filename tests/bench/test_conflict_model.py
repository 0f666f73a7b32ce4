"""The model of several schedulers keeps the laws of the system that it stands for."""

import pytest

from rota.bench.conflict_model import Criterion, Outcome, ServiceTimes, Setup, Synchronisation, predicted_rate, run

_MODES: tuple[Synchronisation, ...] = ("full", "round-robin", "freshest")


def _run(**changes: object) -> Outcome:
    return run(Setup(**{"nodes": 40, "slots": 10, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize("synchronisation", _MODES)
@pytest.mark.parametrize("criterion", ["fine", "coarse"])
@pytest.mark.parametrize("fill", [0.5, 1.0])
def test_all_pods_are_placed_and_no_node_is_oversold(
    synchronisation: Synchronisation, criterion: Criterion, fill: float
) -> None:
    outcome = _run(schedulers=4, fill=fill, synchronisation=synchronisation, criterion=criterion)
    assert outcome.placed == int(fill * 400)
    assert outcome.fullest <= 10


def test_one_scheduler_never_conflicts() -> None:
    for criterion in ("fine", "coarse"):
        assert _run(schedulers=1, fill=1.0, criterion=criterion).conflicts == 0


def test_the_coarse_criterion_conflicts_more_than_the_fine_one() -> None:
    fine, coarse = (_run(schedulers=8, fill=0.9, criterion=one) for one in ("fine", "coarse"))
    assert coarse.conflict_fraction > fine.conflict_fraction


def test_more_schedulers_conflict_more() -> None:
    few, many = (_run(schedulers=one, fill=0.9, criterion="coarse").conflict_fraction for one in (2, 8))
    assert many > few


def test_the_slowest_stage_limits_the_predicted_rate() -> None:
    times = ServiceTimes(serving=0.001, deciding=0.004, following=0.0005)
    assert predicted_rate(times, 1) == pytest.approx(1 / 0.0045)
    assert predicted_rate(times, 2) == pytest.approx(1 / 0.0025)
    assert predicted_rate(times, 64) == pytest.approx(1000)  # the API server
    assert predicted_rate(times, 64, servers=8) == pytest.approx(1 / (0.004 / 64 + 0.0005))  # following
    assert predicted_rate(times, 2, conflicts=0.5) == pytest.approx(1 / 0.0045)
    mirrored = ServiceTimes(serving=0.004, deciding=0.001, following=0.0005, mirroring=0.001)
    assert predicted_rate(mirrored, 4, servers=4) == pytest.approx(1 / 0.002)  # half of it following
