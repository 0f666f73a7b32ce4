"""The page docs/howto/monitor-a-cluster.md, followed word for word."""

from pathlib import Path

import pytest
import yaml
from tests.docs import following

PAGE = "monitor-a-cluster.md"


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.timeout(600)
def test_the_page_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    page = [one for one in following.blocks(PAGE) if one.language != "console"]
    monkeypatch.setattr(following, "blocks", lambda _: iter(page))
    followed = following.follow(PAGE, tmp_path, patience_s=580)
    assert len(followed) == 1
    for promised, printed in followed:
        assert printed == promised
    assert (tmp_path / "prometheus" / "token").stat().st_mode & 0o077 == 0
    assert yaml.safe_load((tmp_path / "prometheus" / "workers.json").read_text())
    assert yaml.safe_load((tmp_path / "inhibitions.yaml").read_text())["inhibit_rules"]
