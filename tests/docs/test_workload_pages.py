"""The pages about jobs, batch jobs, services and pipelines, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following

PAGES = {"run-batch-jobs.md": 4, "run-jobs.md": 3, "run-pipelines.md": 5, "run-services.md": 5}


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_written(page: str, tmp_path: Path) -> None:
    followed = following.follow(page, tmp_path)
    assert len(followed) == PAGES[page]
    for promised, printed in followed:
        assert printed == promised
