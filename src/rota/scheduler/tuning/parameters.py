"""Parameters of a scheduler configuration: weights of score plugins, and numbers in the arguments of plugins. Pure.

A parameter has the name of a plugin and the path of an argument, such as `objectives.PowerObjective.weight`; without a
path it is the weight of the plugin's score. An item of a list is named by its field `plugin` or `name`. Changes are
made to the settings, not to the resolved profiles, so recordings, `/configz` and simulations show the values in force.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.scheduler.config.wire import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    PluginSet,
)
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import ProfileSpec
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.third_party import Loaded

#: The greatest weight of a score plugin that a proposal may set.
MOST_WEIGHT: Final = 1000
_COMBINER: Final = "ObjectiveCombiner"


class NotTunableError(ValueError):
    """A parameter does not exist in a profile, or cannot have the value; the message says why."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a profile; an empty argument is the weight of the plugin's score."""

    plugin: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.plugin}.{self.argument}" if self.argument else self.plugin


#: Parameters with the values that they are to have.
Values = Mapping[Parameter, float]


def profile_of(loaded: Loaded, scheduler_name: str) -> ProfileSpec:
    """The profile of a scheduler name."""
    profile = loaded.configuration.profiles.get(scheduler_name)
    if profile is None:
        known = ", ".join(loaded.configuration.profiles)
        raise NotTunableError(f'there is no profile "{scheduler_name}"; the configuration has {known}')
    return profile


def value_of(profile: ProfileSpec, parameter: Parameter) -> float:
    """The present value: an int where the configuration has one."""
    if not parameter.argument:
        weights = {each.name: each.weight for each in profile.points[ExtensionPoint.SCORE]}
        if parameter.plugin not in weights:
            raise NotTunableError(f"profile {profile.scheduler_name} does not score by {parameter.plugin}")
        return weights[parameter.plugin]
    at: Any = _arguments(profile, parameter.plugin)
    for segment in parameter.argument.split("."):
        at = _child(at, segment, parameter)
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise NotTunableError(f"{parameter} is not a number")
    return at


def weights(profile: ProfileSpec) -> Iterator[Parameter]:
    """The weights of a profile: of its objectives if it combines them, otherwise of its score plugins."""
    combined = profile.args.get(_COMBINER)
    if combined is None:
        for each in profile.points[ExtensionPoint.SCORE]:
            yield Parameter(each.name)
        return
    for objective in msgspec.to_builtins(combined)["objectives"]:
        yield Parameter(_COMBINER, f"objectives.{objective['plugin']}.weight")


def with_values(
    settings: KubeSchedulerConfiguration, profile: ProfileSpec, values: Values
) -> KubeSchedulerConfiguration:
    """Settings whose profile has these values; `profile` is the resolved one."""
    changed = next(each for each in settings.profiles if each.scheduler_name == profile.scheduler_name)
    for parameter, given in values.items():
        present = value_of(profile, parameter)
        if isinstance(present, int) and given != int(given):
            raise NotTunableError(f"{parameter} is a whole number, {given:g} is none")
        value = int(given) if isinstance(present, int) else float(given)
        if parameter.argument:
            changed = _with_argument(changed, profile, parameter, value)
        else:
            if not 1 <= value <= MOST_WEIGHT:
                raise NotTunableError(f"the weight of {parameter} must be from 1 to {MOST_WEIGHT}")
            changed = _with_weight(changed, parameter.plugin, int(value))
    profiles = tuple(changed if each.scheduler_name == profile.scheduler_name else each for each in settings.profiles)
    return msgspec.structs.replace(settings, profiles=profiles)


def tuned(loaded: Loaded, scheduler_name: str, values: Values) -> Loaded:
    """A configuration with other values; NotTunableError or ConfigurationError if it cannot have them."""
    profile = profile_of(loaded, scheduler_name)
    made = third_party.load_settings(with_values(loaded.configuration.settings, profile, values), loaded.registry)
    require_plugins(made, scheduler_name)
    return made


def require_plugins(loaded: Loaded, scheduler_name: str) -> None:
    """NotTunableError if a plugin of a profile cannot be built: constructors may refuse what is well formed."""
    try:
        Framework(profile_of(loaded, scheduler_name), loaded.registry)
    except Exception as error:  # third-party code
        raise NotTunableError(f"a plugin cannot be built with it: {type(error).__name__}: {error}") from error


def _arguments(profile: ProfileSpec, plugin: str) -> Any:
    if plugin not in profile.args:
        raise NotTunableError(f"profile {profile.scheduler_name} does not run {plugin}")
    return msgspec.to_builtins(profile.args[plugin], enc_hook=str)


def _child(at: Any, segment: str, parameter: Parameter) -> Any:
    if isinstance(at, Mapping) and segment in at:
        return at[segment]
    if isinstance(at, Sequence) and not isinstance(at, str):
        named = [each for each in at if isinstance(each, Mapping) and segment in (each.get("plugin"), each.get("name"))]
        if len(named) == 1:
            return named[0]
    raise NotTunableError(f"{parameter}: there is no {segment}")


def _with_argument(
    profile: KubeSchedulerProfile, resolved: ProfileSpec, parameter: Parameter, value: float
) -> KubeSchedulerProfile:
    position, given = next(
        (
            (position, copy.deepcopy(each.args))
            for position, each in enumerate(profile.plugin_config)
            if _is(each.name, parameter.plugin)
        ),
        (None, {}),
    )
    *way, last = parameter.argument.split(".")
    # What the file does not say is there with its default, which is written out as far as the way leads.
    into: Any = given
    known = _arguments(resolved, parameter.plugin)
    for segment in way:
        known = _child(known, segment, parameter)
        if isinstance(into, dict):
            into = into.setdefault(segment, copy.deepcopy(known))
        else:
            into = _child(into, segment, parameter)
    into[last] = value
    configs = list(profile.plugin_config)
    if position is None:
        configs.append(PluginConfig(name=parameter.plugin, args=given))
    else:
        configs[position] = PluginConfig(name=configs[position].name, args=given)
    return msgspec.structs.replace(profile, plugin_config=tuple(configs))


def _with_weight(profile: KubeSchedulerProfile, plugin: str, weight: int) -> KubeSchedulerProfile:
    """The weight where the file has it; otherwise at multiPoint, which keeps the plugin's place in the order."""
    plugins = profile.plugins
    if any(_is(ref.name, plugin) for ref in plugins.score.enabled):
        return msgspec.structs.replace(
            profile, plugins=msgspec.structs.replace(plugins, score=_weighed(plugins.score, plugin, weight))
        )
    section = _weighed(plugins.multi_point, plugin, weight)
    if not any(_is(ref.name, plugin) for ref in section.enabled):
        section = msgspec.structs.replace(section, enabled=(*section.enabled, PluginRef(name=plugin, weight=weight)))
    return msgspec.structs.replace(profile, plugins=msgspec.structs.replace(plugins, multi_point=section))


def _weighed(section: PluginSet, plugin: str, weight: int) -> PluginSet:
    return msgspec.structs.replace(
        section,
        enabled=tuple(
            PluginRef(name=ref.name, weight=weight) if _is(ref.name, plugin) else ref for ref in section.enabled
        ),
    )


def _is(named: str, plugin: str) -> bool:
    """Whether a name of a file means a plugin; `module:Class` may stand for the class."""
    return named == plugin or (":" in named and named.rpartition(":")[2] == plugin)
