"""Every row of the table in virtual time: those of one configuration side by side in one cluster."""

import pytest
from tests.scheduler.batch_scenarios import worlds
from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import SCENARIOS


@pytest.mark.slow
@pytest.mark.parametrize("conf", CONFS)
async def test_the_rows_end_as_the_table_says(conf: str) -> None:
    scenarios = [one for one in SCENARIOS if one.conf == conf]
    assert scenarios
    async with worlds.virtual(scenarios, CONFS[conf]) as world:
        assert not await world.play(scenarios)
