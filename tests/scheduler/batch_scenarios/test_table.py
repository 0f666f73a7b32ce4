"""The table of scenarios in the documentation is complete and true."""

import re
from pathlib import Path

from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import SCENARIOS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "batch-scenarios.md"


def test_the_page_names_every_scenario_with_its_configuration() -> None:
    rows = re.findall(r"\| `([\w-]+)` \| ([\w-]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((one.name, one.conf) for one in SCENARIOS)
    assert {conf for _, conf in rows} == set(CONFS)
