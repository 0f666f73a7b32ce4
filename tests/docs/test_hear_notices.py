"""The page docs/howto/hear-notices.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    followed = following.follow("hear-notices.md", tmp_path)
    assert len(followed) == 2
    for promised, printed in followed:
        assert "\n".join(line for line in printed.splitlines() if line) == promised
