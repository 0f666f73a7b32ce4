"""Third-party plugins: found by module path or entry point, refused with the profile and the remedy."""

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import NoArgs, Registry
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.third_party import Loaded

PLUGINS = """
import msgspec

class Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    factor: int = 1

class Tidy:
    name = "Tidy"
    Args = Args
    def __init__(self, args, handle):
        self.args = args
    def score(self, state, pod, node):
        return self.args.factor

class Bare:
    name = "Bare"
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        return None

class Closed:
    name = "Closed"
    def score(self, state, pod, node):
        return 0

class Nameless:
    def score(self, state, pod, node):
        return 0

class Idle:
    name = "Idle"

class Copycat:
    name = "Sort"
    def __init__(self, args, handle):
        pass
    def score(self, state, pod, node):
        return 0

class Loose:
    name = "Loose"
    Args = dict
    def __init__(self, args, handle):
        pass
    def score(self, state, pod, node):
        return 0

instance = Idle()
"""


class Sort:
    name = "Sort"
    Args = NoArgs

    def sort_key(self, pod: object, queued_at: float) -> float:
        return queued_at


class Binder:
    name = "Binder"
    Args = NoArgs

    async def bind(self, state: object, pod: object, node_name: str) -> None: ...


BUILTIN = Registry([Sort, Binder])


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a module of plugins, and one that cannot be imported, on the path."""
    (tmp_path / "plugin_shop.py").write_text(PLUGINS)
    (tmp_path / "broken_shop.py").write_text("raise RuntimeError('out of order')")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("plugin_shop", "broken_shop"):
        sys.modules.pop(name, None)


def entry(name: str, value: str) -> metadata.EntryPoint:
    return metadata.EntryPoint(name=name, value=value, group=third_party.GROUP)


def load(*names: str, installed: tuple[metadata.EntryPoint, ...] = (), config: list[Any] | None = None) -> Loaded:
    profile = {
        "schedulerName": "busy",
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name} for name in ("Sort", "Binder", *names)],
            }
        },
        "pluginConfig": config or [],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return third_party.load(yaml.safe_dump({**head, "profiles": [profile]}), BUILTIN, entry_points=installed)


def refusal(*names: str, installed: tuple[metadata.EntryPoint, ...] = ()) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(*names, installed=installed)
    (fault,) = caught.value.faults
    assert fault.path == "profiles[0].plugins.multiPoint.enabled[2].name"
    return fault.message


def scorers(loaded: Loaded) -> list[str]:
    return [plugin.name for plugin in loaded.configuration.first.points[ExtensionPoint.SCORE]]


def test_a_module_path_in_a_profile_loads_the_class() -> None:
    loaded = load("plugin_shop:Tidy")
    assert scorers(loaded) == ["Tidy"]
    assert loaded.registry["Tidy"].__module__ == "plugin_shop"


def test_an_entry_point_loads_the_class_by_its_name() -> None:
    loaded = load("Tidy", installed=(entry("Tidy", "plugin_shop:Tidy"),))
    assert scorers(loaded) == ["Tidy"]


def test_arguments_may_use_the_path_or_the_name() -> None:
    by_path = load("plugin_shop:Tidy", config=[{"name": "plugin_shop:Tidy", "args": {"factor": 3}}])
    by_name = load("plugin_shop:Tidy", config=[{"name": "Tidy", "args": {"factor": 3}}])
    assert by_path.configuration.first.args["Tidy"] == by_name.configuration.first.args["Tidy"]
    assert by_path.registry["Tidy"].Args(factor=3) == by_path.configuration.first.args["Tidy"]


def test_a_class_without_args_takes_none() -> None:
    loaded = load("plugin_shop:Bare")
    assert loaded.configuration.first.args["Bare"] == NoArgs()


def test_what_no_profile_names_is_not_imported() -> None:
    load(installed=(entry("Broken", "broken_shop:Broken"),))
    assert "broken_shop" not in sys.modules


def test_a_bad_argument_names_the_plugin_and_the_field() -> None:
    with pytest.raises(ConfigurationError, match=r"pluginConfig\[0\]\.args\.factor: .* \(arguments of plugin Tidy\)"):
        load("plugin_shop:Tidy", config=[{"name": "Tidy", "args": {"factor": "big"}}])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_such_shop:Tidy", "No module named 'no_such_shop'; install the package that holds it"),
        ("broken_shop:Tidy", "importing broken_shop raised RuntimeError: out of order"),
        ("plugin_shop:Nothing", 'module plugin_shop has no "Nothing"; write module:Class'),
        ("plugin_shop:", "write module:Class"),
        (":Tidy", "write module:Class"),
        ("plugin_shop:instance", "it is not a class but an object of Idle; name the class"),
        ("plugin_shop:Nameless", 'class Nameless has no name; give it name = "Nameless"'),
        ("plugin_shop:Idle", "class Idle has no method of an extension point"),
        ("plugin_shop:Copycat", 'there is another plugin named "Sort"; change the name of the class'),
        ("plugin_shop:Closed", "Closed(args, handle) cannot be called: too many positional arguments"),
        ("plugin_shop:Loose", "Loose.Args is not a msgspec.Struct"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_with_profile_and_remedy(name: str, expected: str) -> None:
    message = refusal(name)
    assert message.startswith(f'plugin "{name}" of profile "busy" cannot be used: ')
    assert expected in message


def test_two_packages_that_offer_one_name_are_refused() -> None:
    installed = (entry("Tidy", "plugin_shop:Tidy"), entry("Tidy", "plugin_shop:Bare"))
    assert "plugin_shop:Tidy and plugin_shop:Bare both offer it; uninstall one" in refusal("Tidy", installed=installed)


def test_an_entry_point_must_bear_the_name_of_its_class() -> None:
    installed = (entry("Neat", "plugin_shop:Tidy"),)
    assert 'plugin_shop:Tidy calls itself "Tidy"' in refusal("Neat", installed=installed)


def test_a_name_that_nothing_offers_is_refused_by_configuration() -> None:
    with pytest.raises(ConfigurationError, match='there is no plugin "Ghost"'):
        load("Ghost")
