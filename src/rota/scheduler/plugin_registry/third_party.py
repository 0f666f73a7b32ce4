"""Third-party plugins: by an entry point of the group `rota.plugins`, by `module:Class` in a profile, or in a file.

Only modules that a configuration or an option names are imported, from Python's path. An exception of third-party code
becomes a fault with the profile, the place in the file and the remedy.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import cast

import msgspec

from rota.scheduler.config import documents, resolution
from rota.scheduler.config.faults import ConfigurationError, Fault
from rota.scheduler.config.resolution import Configuration
from rota.scheduler.config.specs import PluginSpec, specs_of
from rota.scheduler.config.wire import API_VERSION, KIND, KubeSchedulerConfiguration
from rota.scheduler.framework.plugin_interfaces import METHODS, points_of
from rota.scheduler.framework.registry import NoArgs, PluginClass, Registry

GROUP = "rota.plugins"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with the plugin classes that its profiles may use."""

    configuration: Configuration
    registry: Registry


class NotLoadableError(Exception):
    """Why a plugin cannot be used, and the remedy."""


def load(text: str | bytes, builtin: Registry, *, entry_points: Iterable[metadata.EntryPoint] | None = None) -> Loaded:
    """Read a configuration file's text, import the plugins that it names, and resolve it."""
    return load_settings(resolution.read(documents.parse(text)), builtin, entry_points=entry_points)


def default(builtin: Registry) -> Loaded:
    """The configuration of a scheduler without a configuration file."""
    return load_settings(KubeSchedulerConfiguration(api_version=API_VERSION, kind=KIND), builtin)


def load_settings(
    settings: KubeSchedulerConfiguration,
    builtin: Registry,
    *,
    entry_points: Iterable[metadata.EntryPoint] | None = None,
) -> Loaded:
    """Import the plugins that the settings name, and resolve them."""
    installed = list(metadata.entry_points(group=GROUP) if entry_points is None else entry_points)
    registry = Registry(builtin[name] for name in builtin)
    specs: dict[str, PluginSpec] = specs_of(builtin)
    faults: list[Fault] = []
    for path, profile_name, name in plugin_names(settings):
        if name in specs:
            continue
        try:
            if (plugin := _find(name, installed)) is not None:
                register(plugin, registry)
                specs[name] = specs[plugin.name] = specs_of(registry)[plugin.name]
        except NotLoadableError as error:
            faults.append(Fault(path, f'plugin "{name}" of profile "{profile_name}" cannot be used: {error}'))
    if faults:
        raise ConfigurationError(faults)
    return Loaded(resolution.resolve(settings, specs), registry)


def plugins_in_file(path: Path) -> list[PluginClass]:
    """Execute a Python file and return its plugin classes; raises NotLoadableError if that is impossible."""
    # A unique module name, so that a plugin file never shadows an installed module.
    spec = importlib.util.spec_from_file_location(f"plugin file {path}", path)
    if spec is None or spec.loader is None:
        raise NotLoadableError("is not a Python file; name it *.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        raise NotLoadableError("no such file") from error
    except Exception as error:
        raise NotLoadableError(f"running it raised {type(error).__name__}: {error}") from error
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    found = [_checked(one) for one in own if isinstance(getattr(one, "name", None), str) and points_of(one)]
    if not found:
        methods = ", ".join(sorted(name for names in METHODS.values() for name in names))
        raise NotLoadableError(f"defines no plugin: a class with a name and a method of an extension point ({methods})")
    return found


def plugin_names(settings: KubeSchedulerConfiguration) -> Iterator[tuple[str, str, str]]:
    """The places that name plugins: (path, schedulerName, name)."""
    for path, profile in documents.indexed("profiles", settings.profiles):
        owner = profile.scheduler_name or ""
        for section_name, section in profile.plugins.sections().items():
            for place, ref in documents.indexed(f"{path}.plugins.{section_name}.enabled", section.enabled):
                yield f"{place}.name", owner, ref.name
            for place, ref in documents.indexed(f"{path}.plugins.{section_name}.disabled", section.disabled):
                yield f"{place}.name", owner, ref.name
        for place, config in documents.indexed(f"{path}.pluginConfig", profile.plugin_config):
            yield f"{place}.name", owner, config.name


def _find(name: str, installed: list[metadata.EntryPoint]) -> PluginClass | None:
    """The class of this name, or None if no package and no path has it."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return _checked(_import(module, attribute))
    offers = [point for point in installed if point.name == name]
    if not offers:
        return None
    if len({point.value for point in offers}) > 1:
        values = " and ".join(point.value for point in offers)
        raise NotLoadableError(f"{values} both offer it; uninstall one, or write the one you want as module:Class")
    plugin = _checked(_import(offers[0].module, offers[0].attr))
    if plugin.name != name:
        raise NotLoadableError(f'{offers[0].value} calls itself "{plugin.name}"; its entry point must, too')
    return plugin


def _import(module_name: str, attribute: str) -> object:
    if not module_name or not attribute:
        raise NotLoadableError("write module:Class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        where = "install the package that holds it, or put its folder on PYTHONPATH"
        raise NotLoadableError(f"{error}; {where}") from error
    except Exception as error:
        raise NotLoadableError(f"importing {module_name} raised {type(error).__name__}: {error}") from error
    found: object = module
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if found is None:
        raise NotLoadableError(f'module {module_name} has no "{attribute}"; write module:Class')
    return found


def _checked(found: object) -> PluginClass:
    """Check that the class has everything that a plugin class must have."""
    if not isinstance(found, type):
        raise NotLoadableError(f"it is not a class but an object of {type(found).__name__}; name the class")
    if not isinstance(getattr(found, "name", None), str):
        raise NotLoadableError(f'class {found.__name__} has no name; give it name = "{found.__name__}"')
    if not points_of(found):
        methods = ", ".join(sorted(name for names in METHODS.values() for name in names))
        raise NotLoadableError(f"class {found.__name__} has no method of an extension point ({methods})")
    try:
        inspect.signature(found).bind(NoArgs(), None)
    except TypeError as error:
        raise NotLoadableError(f"{found.__name__}(args, handle) cannot be called: {error}") from error
    args = getattr(found, "Args", NoArgs)
    if not (isinstance(args, type) and issubclass(args, msgspec.Struct)):
        raise NotLoadableError(f"{found.__name__}.Args is not a msgspec.Struct; derive it from WireStruct")
    return cast("PluginClass", found)


def register(plugin: PluginClass, registry: Registry) -> None:
    """Add a plugin; raises NotLoadableError if its name is taken."""
    if plugin.name not in registry:
        registry.register(plugin)
    elif registry[plugin.name] is not plugin:
        raise NotLoadableError(f'there is another plugin named "{plugin.name}"; change the name of the class')
