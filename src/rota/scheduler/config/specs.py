"""Plugin specifications for configuration: name, extension points and argument struct.

`PluginSpecs` is a plain mapping that the caller supplies (built-in plugins plus loaded ones), so resolution needs no
plugin classes. This module checks whether a plugin name may be used in a place, and reads plugin arguments.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from rota.scheduler.config import args as upstream_args
from rota.scheduler.config import documents, stock_defaults
from rota.scheduler.config.faults import ConfigurationError, Fault, join
from rota.scheduler.config.wire import API_VERSION, PluginConfig
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import NoArgs, Registry

REMEDY = 'install it (entry point group "rota.plugins") or write it as module:Class'


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """What configuration needs of a plugin; its arguments are read into the struct `args`."""

    name: str
    points: frozenset[ExtensionPoint]
    args: type[msgspec.Struct] = NoArgs


#: Plugins by the names that a file may use for them; a plugin loaded from a module path is there under that path too.
PluginSpecs = Mapping[str, PluginSpec]


def specs_of(registry: Registry) -> dict[str, PluginSpec]:
    """List the plugins of a registry under their own names; a class without `Args` takes none."""
    return {
        name: PluginSpec(name=name, points=registry.points(name), args=getattr(registry[name], "Args", NoArgs))
        for name in registry
    }


def enabling_faults(name: str, specs: PluginSpecs, *, path: str) -> Iterator[Fault]:
    """Why a plugin of this name cannot be enabled, if so."""
    if name in specs:
        return
    if name in stock_defaults.REMOVED_PLUGINS:
        yield Fault(
            path, f'"{name}" was removed from kube-scheduler; {stock_defaults.REMOVED_PLUGINS[name]} does its work'
        )
    elif name in stock_defaults.ABSENT_PLUGINS:
        yield Fault(path, f'"{name}" is a plugin of kube-scheduler that Rota does not have; remove it')
    else:
        yield Fault(path, _unknown(name, specs))


def naming_faults(name: str, specs: PluginSpecs, *, path: str) -> Iterator[Fault]:
    """Why no plugin of this name can be disabled or configured, if so: the name is unknown."""
    if name not in specs and name not in stock_defaults.ABSENT_PLUGINS and name not in stock_defaults.REMOVED_PLUGINS:
        yield Fault(path, _unknown(name, specs))


def read_args(configs: Sequence[PluginConfig], specs: PluginSpecs, *, path: str) -> dict[str, msgspec.Struct]:
    """Read the arguments of every plugin in the list; raises one `ConfigurationError` for all faults."""
    found: dict[str, msgspec.Struct] = {}
    seen: set[str] = set()
    faults: list[Fault] = []
    for place, config in documents.indexed(path, configs):
        wrong = list(_entry_faults(config.name, specs, path=f"{place}.name"))
        spec = specs.get(config.name)
        name = spec.name if spec else config.name
        if name in seen:
            wrong.append(Fault(place, f'plugin "{name}" is configured twice; merge the two entries'))
        seen.add(name)
        shape = spec.args if spec else upstream_args.UPSTREAM.get(name, NoArgs)
        try:
            if not wrong:
                found[name] = _read_one(config, shape, name=name)
        except ConfigurationError as error:
            wrong += [
                Fault(join(f"{place}.args", fault.path), f"{fault.message} (arguments of plugin {name})")
                for fault in error.faults
            ]
        faults += wrong
    if faults:
        raise ConfigurationError(faults)
    return found


def default_args(spec: PluginSpec, *, path: str) -> msgspec.Struct:
    """Give the arguments of a plugin that a profile does not configure, unless it cannot do without."""
    try:
        return documents.convert({}, spec.args)
    except ConfigurationError as error:
        needs = [Fault(path, f'plugin "{spec.name}" must be configured: {fault}') for fault in error.faults]
        raise ConfigurationError(needs) from error


def _entry_faults(name: str, specs: PluginSpecs, *, path: str) -> Iterator[Fault]:
    if name in stock_defaults.REMOVED_PLUGINS and name not in specs:
        yield from enabling_faults(name, specs, path=path)
    else:
        yield from naming_faults(name, specs, path=path)


def _read_one(config: PluginConfig, shape: type[msgspec.Struct], *, name: str) -> msgspec.Struct:
    """Read one entry; `apiVersion` and `kind` may stand in it, and must then be right."""
    data = dict(config.args)
    version, kind = data.pop("apiVersion", API_VERSION), data.pop("kind", f"{name}Args")
    wrong = []
    if version != API_VERSION:
        wrong.append(Fault("apiVersion", f'"{version}" must be "{API_VERSION}"'))
    if kind != f"{name}Args":
        wrong.append(Fault("kind", f'"{kind}" must be "{name}Args"'))
    if shape is NoArgs and data:
        wrong.append(Fault(next(iter(data)), "the plugin takes no arguments; remove them"))
    if wrong:
        raise ConfigurationError(wrong)
    value = documents.convert(data, shape)
    if isinstance(value, upstream_args.Checked) and (faults := list(value.faults())):
        raise ConfigurationError(faults)
    return value


def _unknown(name: str, specs: PluginSpecs) -> str:
    near = difflib.get_close_matches(name, [*specs, *stock_defaults.ABSENT_PLUGINS], n=1)
    hint = f"did you mean {near[0]}? Otherwise " if near else ""
    return f'there is no plugin "{name}"; {hint}{REMEDY}'
