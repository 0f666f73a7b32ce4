"""Every row of the table in virtual time: those of one configuration side by side in one cluster."""

import pytest
from tests.scheduler.batch_scenarios import worlds
from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import SCENARIOS

from rota.kit import offload


@pytest.mark.slow
@pytest.mark.parametrize("conf", CONFS)
async def test_the_rows_end_as_the_table_says(conf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pass in a thread would take real time, while virtual time goes on.
    monkeypatch.setattr(offload, "INLINE_BYTES", 1 << 40)
    scenarios = [one for one in SCENARIOS if one.conf == conf]
    assert scenarios
    async with worlds.virtual(scenarios, CONFS[conf]) as world:
        problems = await world.play(scenarios)
    assert not problems, "\n".join(problems.values())
