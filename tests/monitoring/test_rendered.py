"""The files in packaging/ are what the tables say, and the chart has the alerts of its components."""

import runpy
import sys
from pathlib import Path

import pytest
import yaml
from tests.packaging import charts

from rota.monitoring import rule_files

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def test_the_files_are_what_the_tables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["render-monitoring", str(tmp_path)])
    runpy.run_path(str(ROOT / "scripts" / "render-monitoring"), run_name="__main__")
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(written) == 8
    kept = sorted(path.relative_to(PACKAGING) for path in (PACKAGING / "monitoring").rglob("*") if path.is_file())
    assert [path for path in written if path.parts[0] == "monitoring"] == kept
    for path in written:
        assert (tmp_path / path).read_text() == (PACKAGING / path).read_text(), "run scripts/render-monitoring"


@pytest.mark.slow
@pytest.mark.helm
@pytest.mark.timeout(600)
def test_the_chart_has_the_alerts_of_its_components() -> None:
    values = {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}
    found = charts.chosen(charts.render(values), "PrometheusRule")
    assert found["metadata"]["labels"]["release"] == "prometheus"
    assert found["spec"] == yaml.safe_load(yaml.safe_dump(rule_files.rules(alerts=rule_files.BESIDE_KUBERNETES)))
    assert not [one for one in charts.render() if one["kind"] == "PrometheusRule"]
