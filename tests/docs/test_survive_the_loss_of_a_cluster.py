"""The page docs/howto/survive-the-loss-of-a-cluster.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following


@pytest.mark.kubectl
@pytest.mark.slow
@pytest.mark.timeout(500)
def test_the_page_on_lost_clusters_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    followed = following.follow("survive-the-loss-of-a-cluster.md", tmp_path, patience_s=480)
    assert len(followed) == 5
    for promised, printed in followed:
        assert printed == promised
