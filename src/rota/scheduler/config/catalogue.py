"""Which plugins there are, as far as configuration must know: name, extension points, shape of the arguments.

A catalogue is a plain mapping that the caller supplies (built-in plugins plus what was loaded), so resolution
needs no plugin classes. Two questions are answered here: is this name one we may use in this place, and what
do these arguments say.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rota.scheduler.config import args as upstream_args
from rota.scheduler.config import documents, stock
from rota.scheduler.config.faults import ConfigurationError, Fault, join
from rota.scheduler.config.points import ExtensionPoint
from rota.scheduler.config.wire import API_VERSION, PluginConfig

REMEDY = 'install it (entry point group "rota.plugins") or write it as module:Class'


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """What configuration must know of a plugin; `args` is the struct for its arguments, None if it takes none."""

    name: str
    points: frozenset[ExtensionPoint]
    args: type[object] | None = None


#: Plugins by the names that a file may use for them; a plugin loaded from a module path is there under that
#: path too.
Catalogue = Mapping[str, PluginSpec]


def enabling_faults(name: str, catalogue: Catalogue, *, path: str) -> Iterator[Fault]:
    """Say why a plugin of this name cannot be switched on, if so."""
    if name in catalogue:
        return
    if name in stock.REMOVED_PLUGINS:
        yield Fault(path, f'"{name}" was removed from kube-scheduler; {stock.REMOVED_PLUGINS[name]} does its work')
    elif name in stock.ABSENT_PLUGINS:
        yield Fault(path, f'"{name}" is a plugin of kube-scheduler that Rota does not have; remove it')
    else:
        yield Fault(path, _unknown(name, catalogue))


def naming_faults(name: str, catalogue: Catalogue, *, path: str) -> Iterator[Fault]:
    """Say why nothing of this name can be switched off or configured, if so: it is known to nobody."""
    if name not in catalogue and name not in stock.ABSENT_PLUGINS and name not in stock.REMOVED_PLUGINS:
        yield Fault(path, _unknown(name, catalogue))


def read_args(configs: Sequence[PluginConfig], catalogue: Catalogue, *, path: str) -> dict[str, object]:
    """Read the arguments of every plugin in the list; raises one `ConfigurationError` for all faults."""
    found: dict[str, object] = {}
    seen: set[str] = set()
    faults: list[Fault] = []
    for place, config in documents.indexed(path, configs):
        wrong = list(_entry_faults(config.name, catalogue, path=f"{place}.name"))
        spec = catalogue.get(config.name)
        name = spec.name if spec else config.name
        if name in seen:
            wrong.append(Fault(place, f'plugin "{name}" is configured twice; merge the two entries'))
        seen.add(name)
        shape = spec.args if spec else upstream_args.UPSTREAM.get(name)
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


def _entry_faults(name: str, catalogue: Catalogue, *, path: str) -> Iterator[Fault]:
    if name in stock.REMOVED_PLUGINS and name not in catalogue:
        yield from enabling_faults(name, catalogue, path=path)
    else:
        yield from naming_faults(name, catalogue, path=path)


def _read_one(config: PluginConfig, shape: type[object] | None, *, name: str) -> object:
    """Read one entry; `apiVersion` and `kind` may stand in it, and must then be right."""
    data = dict(config.args)
    version, kind = data.pop("apiVersion", API_VERSION), data.pop("kind", f"{name}Args")
    wrong = []
    if version != API_VERSION:
        wrong.append(Fault("apiVersion", f'"{version}" must be "{API_VERSION}"'))
    if kind != f"{name}Args":
        wrong.append(Fault("kind", f'"{kind}" must be "{name}Args"'))
    if shape is None and data:
        wrong.append(Fault(next(iter(data)), "the plugin takes no arguments; remove them"))
    if wrong:
        raise ConfigurationError(wrong)
    if shape is None:
        return None
    value = documents.convert(data, shape)
    if isinstance(value, upstream_args.Checked) and (faults := list(value.faults())):
        raise ConfigurationError(faults)
    return value


def _unknown(name: str, catalogue: Catalogue) -> str:
    near = difflib.get_close_matches(name, [*catalogue, *stock.ABSENT_PLUGINS], n=1)
    hint = f"did you mean {near[0]}? Otherwise " if near else ""
    return f'there is no plugin "{name}"; {hint}{REMEDY}'
