"""The plain manifests: what the chart renders, and nothing that Helm would claim as its own."""

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.packaging import charts

MANIFESTS = charts.PACKAGING / "manifests"
#: Those of the chart as it is, and those of what it has beyond.
USUAL = ("scheduler.yaml", "spot-controller.yaml")
RENDERED = (*USUAL, "batch-controller.yaml", "extender.yaml", "spot-agent.yaml")


@pytest.mark.slow
@pytest.mark.helm
def test_they_are_what_the_chart_renders(tmp_path: Path) -> None:
    subprocess.run([Path(__file__).parents[2] / "scripts" / "render-manifests", tmp_path], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(RENDERED)
    for name in RENDERED:
        assert (MANIFESTS / name).read_text() == (tmp_path / name).read_text(), "run scripts/render-manifests"


@pytest.mark.slow
@pytest.mark.helm
def test_together_they_are_the_chart_as_it_is() -> None:
    def known(documents: list[charts.Document]) -> dict[tuple[str, str, str], charts.Document]:
        for one in documents:
            for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
                one["metadata"]["labels"].pop(label, None)
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in documents}

    plain = [one for name in USUAL for one in yaml.safe_load_all((MANIFESTS / name).read_text()) if one]
    assert known(plain) == known(charts.render())


def test_they_go_where_their_namespace_is() -> None:
    namespace = yaml.safe_load((MANIFESTS / "00-namespace.yaml").read_text())["metadata"]["name"]
    assert {path.name for path in MANIFESTS.iterdir()} == {"00-namespace.yaml", *RENDERED}
    for name in RENDERED:
        for one in filter(None, yaml.safe_load_all((MANIFESTS / name).read_text())):
            assert one["metadata"].get("namespace") in (None, "default", namespace)
