"""The page docs/howto/run-many-schedulers.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path: Path) -> None:
    for one in following.follow("run-many-schedulers.md", tmp_path):
        assert one.printed == one.promised
