"""Every row of the table on `rota up`, with real processes: one cluster, whose configuration is replaced in between."""

from pathlib import Path

import pytest
from tests.scheduler.batch_scenarios import live_cluster
from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import SCENARIOS


@pytest.mark.slow
async def test_all_rows_end_as_the_table_says(tmp_path: Path) -> None:
    problems: dict[str, str] = {}
    async with live_cluster.running(tmp_path, SCENARIOS, next(iter(CONFS.values()))) as cluster:
        for name, conf in CONFS.items():
            await cluster.configure(conf)
            problems |= await cluster.world.play([one for one in SCENARIOS if one.conf == name])
    assert not problems, "\n".join(problems.values())
