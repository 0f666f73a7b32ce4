"""Resolves a profile to the plugins of each extension point: merges the defaults and expands multiPoint.

The rules are kube-scheduler's. The default plugins form a multiPoint list. The multiPoint section of a profile edits
that list: `disabled` removes a plugin, `enabled` replaces a default in place or appends. At each extension point the
following plugins run:

1. plugins enabled at that point which are also in the multiPoint list, in the order of the point's section;
2. the rest of the multiPoint list that implements the point and is not disabled there;
3. the other plugins enabled at that point, in order.

A point whose `disabled` holds "*" runs only what it enables. A weight given at the point overrides that of multiPoint.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from rota.scheduler.config import documents, stock_defaults
from rota.scheduler.config.args import DependsOnProfile
from rota.scheduler.config.faults import ConfigurationError, Fault
from rota.scheduler.config.specs import PluginSpecs, default_args, enabling_faults, naming_faults, read_args
from rota.scheduler.config.wire import KubeSchedulerProfile, PluginRef, PluginSet
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Enabled, ProfileSpec

ALL = "*"


def resolve(
    profile: KubeSchedulerProfile,
    specs: PluginSpecs,
    *,
    path: str,
    defaults: Sequence[PluginRef] = stock_defaults.DEFAULT_PLUGINS,
) -> ProfileSpec:
    """Resolve one profile; raises `ConfigurationError` with all its faults."""
    faults = list(_section_faults(profile, specs, path=f"{path}.plugins"))
    args: dict[str, msgspec.Struct] = {}
    try:
        args = read_args(profile.plugin_config, specs, path=f"{path}.pluginConfig")
    except ConfigurationError as error:
        faults += error.faults
    if faults:
        raise ConfigurationError(faults)

    sections = {name: _canonical(section, specs) for name, section in profile.plugins.sections().items()}
    multi_point = merge(defaults, sections["multiPoint"])
    plugins: dict[ExtensionPoint, tuple[Enabled, ...]] = {}
    for point in ExtensionPoint:
        section = sections.get(point, PluginSet())
        able = [ref for ref in multi_point if point in specs[ref.name].points]
        weights = {ref.name: ref.weight or 1 for ref in [*able, *section.enabled]}
        plugins[point] = tuple(Enabled(name, weights[name]) for name in order(section, able))
    faults += _count_faults(plugins, path=f"{path}.plugins")
    for name in dict.fromkeys(each.name for enabled in plugins.values() for each in enabled):
        try:
            args[name] = args.get(name) or default_args(specs[name], path=f"{path}.pluginConfig")
        except ConfigurationError as error:
            faults += error.faults
    if faults:
        raise ConfigurationError(faults)

    running = {each.name for enabled in plugins.values() for each in enabled}
    scoring = {each.name for each in plugins[ExtensionPoint.SCORE]}
    for name, value in args.items():
        if name in running and isinstance(value, DependsOnProfile):
            faults += [
                Fault(f"{path}.pluginConfig", f"{fault} (arguments of plugin {name})")
                for fault in value.profile_faults(scoring)
            ]
    if faults:
        raise ConfigurationError(faults)
    return ProfileSpec(
        scheduler_name=profile.scheduler_name or "",
        points=MappingProxyType(plugins),
        args=MappingProxyType({name: value for name, value in args.items() if name in running}),
    )


def merge(defaults: Sequence[PluginRef], section: PluginSet) -> list[PluginRef]:
    """Edit the default list by a multiPoint section; what is enabled there is in, even if also disabled."""
    off = {ref.name for ref in section.disabled}
    own = {ref.name: ref for ref in section.enabled}
    kept = [] if ALL in off else [own.pop(ref.name, ref) for ref in defaults if ref.name not in off]
    return kept + list(own.values())


def order(section: PluginSet, able: Sequence[PluginRef]) -> tuple[str, ...]:
    """Put the plugins of one point in order; `able` is the part of multiPoint that implements it."""
    explicit = [ref.name for ref in section.enabled]
    off = {ref.name for ref in section.disabled}
    inherited = [] if ALL in off else [ref.name for ref in able if ref.name not in off]
    overriding = [name for name in explicit if name in inherited]
    return tuple(
        overriding
        + [name for name in inherited if name not in explicit]
        + [name for name in explicit if name not in overriding]
    )


def _canonical(section: PluginSet, specs: PluginSpecs) -> PluginSet:
    """Replace the names that a file may use for a plugin by the plugin's own."""

    def own(ref: PluginRef) -> PluginRef:
        spec = specs.get(ref.name)
        return ref if spec is None else PluginRef(name=spec.name, weight=ref.weight)

    return PluginSet(
        enabled=tuple(own(ref) for ref in section.enabled),
        disabled=tuple(own(ref) for ref in section.disabled),
    )


def _section_faults(profile: KubeSchedulerProfile, specs: PluginSpecs, *, path: str) -> Iterator[Fault]:
    for name, section in profile.plugins.sections().items():
        seen: set[str] = set()
        for place, ref in documents.indexed(f"{path}.{name}.enabled", section.enabled):
            yield from enabling_faults(ref.name, specs, path=f"{place}.name")
            if (spec := specs.get(ref.name)) is None:
                continue
            if name != "multiPoint" and name not in spec.points:
                yield Fault(f"{place}.name", f'plugin "{spec.name}" does not implement {name}; enable it elsewhere')
            if spec.name in seen:
                yield Fault(f"{place}.name", f'plugin "{spec.name}" is enabled twice; remove one')
            seen.add(spec.name)
        for place, ref in documents.indexed(f"{path}.{name}.disabled", section.disabled):
            if ref.name != ALL:
                yield from naming_faults(ref.name, specs, path=f"{place}.name")


def _count_faults(plugins: Mapping[ExtensionPoint, tuple[Enabled, ...]], *, path: str) -> Iterator[Fault]:
    sorting = [each.name for each in plugins[ExtensionPoint.QUEUE_SORT]]
    if len(sorting) != 1:
        what = f"has {', '.join(sorting)}; disable all but one" if sorting else "has none; enable PrioritySort"
        yield Fault(f"{path}.queueSort", f"needs exactly one plugin and {what}")
    if not plugins[ExtensionPoint.BIND]:
        yield Fault(f"{path}.bind", "needs at least one plugin and has none; enable DefaultBinder")
