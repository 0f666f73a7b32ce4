"""A scheduler configuration is read the same way everywhere, and follows its files while a process runs."""

import asyncio
from pathlib import Path

import pytest

from rota.kit import system
from rota.kit.errors import UserError
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.plugin_registry.configuration_source import (
    POLL_S,
    ConfigurationSource,
    LiveConfiguration,
    LiveFrameworks,
)
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.testing.clocks import FakeClock

PLUGIN = """
class Fixed:
    name = "Fixed"

    def __init__(self, args, handle):
        pass

    def score(self, state, pod, node):
        return 7
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {name}
  plugins:
    multiPoint:
      enabled:
      - name: Fixed
        weight: 2
"""


@pytest.fixture
def source(tmp_path: Path) -> ConfigurationSource:
    (tmp_path / "fixed.py").write_text(PLUGIN)
    (tmp_path / "sched.yaml").write_text(CONFIG.format(name="mine"))
    return ConfigurationSource(tmp_path / "sched.yaml", (tmp_path / "fixed.py",))


def scorers(loaded: Loaded) -> dict[str, int]:
    return {one.name: one.weight for one in loaded.configuration.first.points[ExtensionPoint.SCORE]}


def test_a_profile_enables_a_plugin_of_a_file_by_its_name(source: ConfigurationSource) -> None:
    assert scorers(source.load())["Fixed"] == 2


def test_without_files_it_is_the_stock_configuration() -> None:
    assert list(ConfigurationSource().load().configuration.profiles) == ["default-scheduler"]


def test_a_plugin_file_that_no_profile_enables_is_refused(source: ConfigurationSource) -> None:
    with pytest.raises(UserError, match=r"fixed\.py: no profile enables Fixed"):
        ConfigurationSource(None, source.plugins).load()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "defines no plugin"),
        ("raise RuntimeError('no')\n", "running it raised RuntimeError: no"),
        (PLUGIN.replace('"Fixed"', '"NodeName"'), 'there is another plugin named "NodeName"'),
        (PLUGIN.replace("pass", "raise RuntimeError('cannot')"), "a plugin of profile mine cannot be built"),
        (PLUGIN.replace("self, args, handle", "self"), r"Fixed\(args, handle\) cannot be called"),
    ],
)
def test_a_plugin_file_that_cannot_be_used_is_named(source: ConfigurationSource, text: str, problem: str) -> None:
    source.plugins[0].write_text(text)
    with pytest.raises(UserError, match=problem):
        source.load()


async def test_a_change_takes_effect_and_a_broken_file_changes_nothing(source: ConfigurationSource) -> None:
    clock = FakeClock()
    live = LiveConfiguration(source, clock=clock)
    frameworks = LiveFrameworks(live)
    applied: list[list[str]] = []
    refused: list[str] = []
    live.apply = lambda loaded: applied.append(list(loaded.configuration.profiles))
    live.refused = refused.append
    following = asyncio.create_task(live.run())
    assert source.file is not None
    try:
        source.file.write_text(CONFIG.format(name="other"))
        await clock.advance(POLL_S + 0.1)
        assert applied == [["other"]]
        assert list(frameworks) == ["other"]
        source.file.write_text("profiles: [")
        await clock.advance(POLL_S + 0.1)
        assert len(refused) == 1
        assert "sched.yaml" in refused[0]
        assert list(frameworks) == ["other"]
        source.file.unlink()
        await clock.advance(POLL_S + 0.1)
        await clock.advance(POLL_S + 0.1)
        assert len(refused) == 2
        source.file.write_text(CONFIG.format(name="third"))
        await clock.advance(POLL_S + 0.1)
        assert list(frameworks) == ["third"]
    finally:
        following.cancel()
        await asyncio.wait([following])


def test_a_configuration_that_cannot_be_applied_does_not_count_as_in_force(source: ConfigurationSource) -> None:
    live = LiveConfiguration(source, clock=system.SystemClock())
    before, refused = live.loaded, list[str]()

    def fail(_: Loaded) -> None:
        raise RuntimeError("two queue sorts")

    live.apply, live.refused = fail, refused.append
    live.reload()
    assert live.loaded is before
    assert refused == ["two queue sorts"]
