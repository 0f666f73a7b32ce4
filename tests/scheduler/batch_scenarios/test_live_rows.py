"""Rows of the table on `rota up`, with real processes: one cluster, whose configuration is replaced in between."""

from pathlib import Path

import pytest
from tests.scheduler.batch_scenarios import live_cluster
from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import LIVE


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_rows_end_as_the_table_says(tmp_path: Path) -> None:
    problems: dict[str, str] = {}
    async with live_cluster.running(tmp_path, LIVE, next(iter(CONFS.values()))) as cluster:
        for name, conf in CONFS.items():
            await cluster.configure(conf)
            problems |= await cluster.world.play([one for one in LIVE if one.conf == name])
    assert not problems, "\n".join(problems.values())
