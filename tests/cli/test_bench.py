"""`rota bench` where what it measures beside is not there."""

from pathlib import Path

import pytest

from rota.cli.main import main


def test_without_stock_programs_one_line_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert main(["bench", "kubernetes", "--quick"]) != 0
    said = capsys.readouterr().err.splitlines()
    assert said == ["rota: there is no stock etcd to measure beside; scripts/build-kubernetes builds it"]
    assert not list((tmp_path / "home").glob(".bench-*"))
