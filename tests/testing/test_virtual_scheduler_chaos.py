"""The quick form of `scripts/soak --schedulers N --bindings M`: eight schedulers, a full cluster, faults."""

import pytest

from rota.testing.virtual_scheduler_chaos import Plan, run


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_eight_schedulers_do_not_oversell_a_full_cluster_under_faults() -> None:
    report = await run(Plan(seed=1, bindings=300, faults=10, nodes=4, population=90))
    assert report.violations == []
    assert report.bindings >= 300
    assert report.fullest == 1.0
    assert sum(report.faults.values()) >= 10


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_observer_finds_oversold_nodes_where_bindings_are_not_checked() -> None:
    report = await run(Plan(seed=1, bindings=500, nodes=4, population=90, conflict_check=False))
    assert report.violations
