"""The table of scenarios in the how-to of federations names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "run-a-federation.md"
_NAMED = re.compile(r"^\| [^|]+ \| `(test_[a-z_]+)` \|$", re.MULTILINE)


def test_every_scenario_names_a_test_with_real_members() -> None:
    named = _NAMED.findall(PAGE.read_text())
    present = "\n".join(path.read_text() for path in (ROOT / "tests" / "federation" / "live").glob("test_*.py"))
    assert len(named) > 15
    assert [name for name in named if f"async def {name}(" not in present] == []
