"""The page docs/howto/run-containers.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following
from tests.worker.runtimes.bench import needs_containers


@pytest.mark.slow
@pytest.mark.kubectl
@needs_containers
def test_the_page_works_as_written(tmp_path: Path) -> None:
    followed = following.follow("run-containers.md", tmp_path)
    assert len(followed) == 2
    for promised, printed in followed:
        assert printed == promised
