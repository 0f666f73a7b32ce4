"""The pages about explaining, replaying, extending and rebalancing, followed word for word."""

from pathlib import Path

import pytest
import yaml
from tests.docs import following

from rota.scheduler.batch import conf
from rota.scheduler.batch.registry import KNOWN
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.plugin_registry import builtin, third_party

PAGES = {
    "explain-a-pod.md": 5,
    "replay-decisions.md": 2,
    "extend-the-scheduler.md": 1,
    "rebalance.md": 3,
    "share-gpus.md": 1,
    "schedule-by-objectives.md": 2,
    "plan-batches.md": 1,
    "schedule-by-load.md": 1,
    "sell-unused-capacity.md": 1,
    "tune-the-scheduler.md": 3,
}


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_written(page: str, tmp_path: Path) -> None:
    followed = following.follow(page, tmp_path)
    assert len(followed) == PAGES[page]
    for promised, printed in followed:
        assert printed == promised


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_on_batches_works_as_written(tmp_path: Path) -> None:
    followed = following.follow("schedule-batches.md", tmp_path)
    assert len(followed) == 3
    for promised, printed in followed:
        assert printed == promised


@pytest.mark.slow
def test_the_page_on_simulations_works_as_written(tmp_path: Path) -> None:
    followed = following.follow("simulate.md", tmp_path)
    assert len(followed) == 7
    for promised, printed in followed:
        assert printed == promised
    assert "<svg" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("page", [*PAGES, "schedule-batches.md", "simulate.md"])
def test_every_file_of_the_page_is_named_in_the_sentence_before_it(page: str) -> None:
    text = (following.HOWTO / page).read_text()
    for block in following.blocks(page):
        if block.file:
            before = text[: text.index(f"```{block.language} {block.file}")].rstrip().rpartition("\n\n")[2]
            assert f"`{block.file}`" in before


def test_the_configurations_of_the_page_on_plans_are_valid() -> None:
    files = [block for block in following.blocks("plan-batches.md") if block.file.endswith(".conf")]
    assert [block.file for block in files] == ["planned.conf", "reclaim.conf"]
    for block in files:
        conf.parse(block.text, KNOWN)


def test_the_profile_that_leaves_everything_to_an_extender_has_no_plugin_at_these_points() -> None:
    (text,) = (block.text for block in following.blocks("extend-the-scheduler.md") if block.file == "takeover.yaml")
    configuration = third_party.load(text, builtin.registry()).configuration
    for point in ("filter", "score", "postFilter"):
        assert configuration.first.points.get(ExtensionPoint(point), ()) == ()
    (extender,) = configuration.extenders
    assert all((extender.filter_verb, extender.prioritize_verb, extender.preempt_verb, extender.bind_verb))
    assert yaml.safe_load(text)["extenders"][0]["command"] == list(extender.command)
