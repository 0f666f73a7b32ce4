"""The page docs/howto/run-a-federation.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following


@pytest.mark.kubectl
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_page_on_federations_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    followed = following.follow("run-a-federation.md", tmp_path, patience_s=380)
    assert len(followed) == 5
    for promised, printed in followed:
        assert printed == promised
