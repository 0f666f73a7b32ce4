"""The page docs/howto/look-inside-a-task.md, followed word for word."""

from pathlib import Path

import pytest
from tests.docs import following

from rota.testing.servers import binaries


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the newest kubectl: old ones do not speak WebSocket, as the page says
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(binaries.kubectls()[-1])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    followed = following.follow("look-inside-a-task.md", tmp_path)
    assert len(followed) == 6
    for promised, printed in followed:
        assert printed.replace(" from default namespace", "") == promised
