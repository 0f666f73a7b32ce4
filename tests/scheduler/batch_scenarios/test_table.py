"""The table of scenarios in the documentation is complete and true."""

import re
from pathlib import Path

from tests.scheduler.batch_scenarios.confs import CONFS
from tests.scheduler.batch_scenarios.table import LIVE, SCENARIOS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "batch-scenarios.md"


def test_the_page_names_every_scenario_with_its_configuration() -> None:
    rows = re.findall(r"\| `([\w-]+)`(, live)? \| ([\w-]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((one.name, ", live" if one in LIVE else "", one.conf) for one in SCENARIOS)
    assert {conf for _, _, conf in rows} == set(CONFS)
