"""The page about the dashboard, followed word for word."""

import re
from pathlib import Path

import pytest
from tests.docs import following


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    (address, shown), (promised, printed) = following.follow("use-the-dashboard.md", tmp_path)
    assert address.strip() == "http://127.0.0.1:6480/dashboard/#ticket=..."
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/dashboard/#ticket=[\w-]{40,}", shown.strip())
    assert printed == promised
