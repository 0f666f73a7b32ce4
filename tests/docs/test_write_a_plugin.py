"""The page docs/howto/write-a-plugin.md, followed word for word: files saved, commands run, output compared."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from tests.docs import following
from tests.docs.following import Block

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.testing.clusters import make_node, make_pod

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-a-plugin.md"


def blocks() -> Iterator[Block]:
    return following.blocks(PAGE.name)


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    followed = following.follow(PAGE.name, tmp_path)
    assert len(followed) == 7
    for each in followed:
        assert each.printed == each.promised


def test_every_file_of_the_page_is_named_in_the_sentence_before_it() -> None:
    page = PAGE.read_text()
    for block in blocks():
        if block.file and block.file != "pyproject.toml":
            before = page[: page.index(f"```{block.language} {block.file}")].rstrip().rpartition("\n\n")[2]
            assert f"`{block.file}`" in before


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "code"), [("", 0), ("100 - 100", 1)])
def test_the_test_of_the_page_passes_and_fails_with_the_plugin(tmp_path: Path, changed: str, code: int) -> None:
    for block in blocks():
        if block.file in {"cheap_nodes.py", "sched.yaml", "test_cheap_nodes.py"}:
            text = block.text.replace(changed, "100") if changed else block.text
            (tmp_path / block.file).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cheap_nodes.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stdout + done.stderr


def test_the_entry_point_of_the_page_makes_the_plugin_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.file: block.text for block in blocks() if block.file}
    (tmp_path / "cheap_nodes.py").write_text(files["cheap_nodes.py"])
    monkeypatch.syspath_prepend(tmp_path)
    declared = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    installed = [
        metadata.EntryPoint(name=name, value=value, group=group)
        for group, points in declared.items()
        for name, value in points.items()
    ]
    config = yaml.safe_load(files["sched.yaml"])
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"][0]["name"] = "CheapNodes"
    loaded = third_party.load(yaml.safe_dump(config), builtin.registry(), entry_points=installed)
    scorers = loaded.configuration.first.points[ExtensionPoint.SCORE]
    assert [(plugin.name, plugin.weight) for plugin in scorers][-1] == ("CheapNodes", 3)
    sys.modules.pop("cheap_nodes", None)


def test_the_filter_of_the_page_wakes_its_pods_when_an_affordable_node_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.file: block.text for block in blocks() if block.file}
    (tmp_path / "not_too_dear.py").write_text(files["not_too_dear.py"])
    monkeypatch.syspath_prepend(tmp_path)
    loaded = third_party.load(files["filter.yaml"], builtin.registry())
    profile = loaded.configuration.first
    queue = SchedulingQueue({profile.scheduler_name: Framework(profile, loaded.registry)})
    queue.add(PodInterner().pod(make_pod("web")), 0.0)
    assert queue.pop(0.0) is not None
    queue.requeue("uid-web", now=0.0, unschedulable_plugins={"NotTooDear"})
    added = ClusterEvent(Resource.NODE, Action.ADD)
    for price, woken in (("80", 0), ("10", 1)):
        node = Cluster().set_node(read_node(make_node("n", labels={"example.com/price": price})))
        assert queue.move(added, None, node, now=0.0) == woken
    sys.modules.pop("not_too_dear", None)
