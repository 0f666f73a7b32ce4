"""The page docs/howto/write-a-plugin.md, followed word for word: files saved, commands run, output compared."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rota.columns.cluster import Cluster
from rota.columns.vocabulary import Vocabulary, read_node
from rota.scheduler import builtin, loading
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.points import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.testing.clusters import make_node, make_pod

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-a-plugin.md"


class Block(NamedTuple):
    """A fenced block: its language, the file it is to be saved as (or ""), and the text."""

    language: str
    file: str
    text: str


def blocks() -> Iterator[Block]:
    for info, text in re.findall(r"```(\S+(?: \S+)?)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        language, _, file = info.partition(" ")
        yield Block(language, file, text)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a reader sees, blank lines at the end aside."""
    return (done.stdout + done.stderr).rstrip("\n")


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    last: subprocess.CompletedProcess[str] | None = None
    compared = 0
    for block in blocks():
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "sh":
            last = subprocess.run(
                ["sh", "-c", block.text],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
        else:
            assert block.language == "text"
            assert last is not None
            assert said(last) == block.text.rstrip("\n")
            last, compared = None, compared + 1
    assert compared == 5


def test_every_file_of_the_page_is_named_in_the_sentence_before_it() -> None:
    page = PAGE.read_text()
    for block in blocks():
        if block.file and block.file != "pyproject.toml":
            before = page[: page.index(f"```{block.language} {block.file}")].rstrip().rpartition("\n\n")[2]
            assert f"`{block.file}`" in before


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
    loaded = loading.load(yaml.safe_dump(config), builtin.registry(), entry_points=installed)
    scorers = loaded.configuration.first.points[ExtensionPoint.SCORE]
    assert [(plugin.name, plugin.weight) for plugin in scorers][-1] == ("CheapNodes", 3)
    sys.modules.pop("cheap_nodes", None)


def test_the_filter_of_the_page_wakes_its_pods_when_an_affordable_node_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.file: block.text for block in blocks() if block.file}
    (tmp_path / "not_too_dear.py").write_text(files["not_too_dear.py"])
    monkeypatch.syspath_prepend(tmp_path)
    loaded = loading.load(files["filter.yaml"], builtin.registry())
    profile = loaded.configuration.first
    queue = SchedulingQueue({profile.scheduler_name: Framework(profile, loaded.registry)})
    queue.add(Vocabulary().pod(make_pod("web")), 0.0)
    assert queue.pop(0.0) is not None
    queue.requeue("uid-web", now=0.0, rejectors={"NotTooDear"})
    added = ClusterEvent(Resource.NODE, Action.ADD)
    for price, woken in (("80", 0), ("10", 1)):
        node = Cluster().set_node(read_node(make_node("n", labels={"example.com/price": price})))
        assert queue.move(added, None, node, now=0.0) == woken
    sys.modules.pop("not_too_dear", None)
