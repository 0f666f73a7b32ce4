"""Loads a configuration: text, wire structs, validation, profiles.

Extenders change two things, as in kube-scheduler. Ignorable extenders move behind the others. Resources that an
extender asks the scheduler to ignore become ignored resources of NodeResourcesFit in every profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from rota.scheduler.config import documents, profiles, validation
from rota.scheduler.config.args import NodeResourcesFitArgs
from rota.scheduler.config.faults import ConfigurationError, Fault
from rota.scheduler.config.specs import PluginSpecs
from rota.scheduler.config.wire import API_VERSION, KIND, Extender, KubeSchedulerConfiguration
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import ProfileSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A validated scheduler configuration; `settings` holds the plain values (backoff, leader election and so on)."""

    settings: KubeSchedulerConfiguration
    #: By schedulerName, in the order of the file.
    profiles: Mapping[str, ProfileSpec]
    #: In the order in which they are called.
    extenders: tuple[Extender, ...] = ()

    @property
    def first(self) -> ProfileSpec:
        """The first profile of the file."""
        return next(iter(self.profiles.values()))


def read(document: object) -> KubeSchedulerConfiguration:
    """Turn a parsed document into wire structs; unknown fields and wrong types are refused by path."""
    if not isinstance(document, dict):
        raise ConfigurationError([Fault("", f"expected a {KIND}, got {type(document).__name__}")])
    version, kind = document.get("apiVersion"), document.get("kind")
    if (version, kind) != (API_VERSION, KIND):
        # The fields of another kind or version would all be unknown, and those faults would hide the real one.
        expected = f"must be a {KIND} of {API_VERSION}"
        raise ConfigurationError([Fault("apiVersion" if version != API_VERSION else "kind", expected)])
    return documents.convert(document, KubeSchedulerConfiguration)


def resolve(settings: KubeSchedulerConfiguration, specs: PluginSpecs) -> Configuration:
    """Validate the settings and resolve every profile; all faults are in one `ConfigurationError`."""
    faults = list(validation.faults(settings))
    resolved: list[ProfileSpec] = []
    for path, profile in documents.indexed("profiles", settings.profiles):
        try:
            resolved.append(profiles.resolve(profile, specs, path=path))
        except ConfigurationError as error:
            faults += error.faults
    faults += _queue_sort_faults(resolved) if not faults else []
    if faults:
        raise ConfigurationError(faults)
    ignored = [
        resource.name
        for extender in settings.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    return Configuration(
        settings=settings,
        profiles=MappingProxyType({each.scheduler_name: _ignoring(each, ignored) for each in resolved}),
        extenders=tuple(sorted(settings.extenders, key=lambda extender: extender.ignorable)),
    )


def load(text: str | bytes, specs: PluginSpecs) -> Configuration:
    """Read a configuration file's text (YAML or JSON) and resolve it."""
    return resolve(read(documents.parse(text)), specs)


def default(specs: PluginSpecs) -> Configuration:
    """The configuration of a scheduler without a configuration file."""
    return resolve(KubeSchedulerConfiguration(api_version=API_VERSION, kind=KIND), specs)


def _ignoring(profile: ProfileSpec, resources: list[str]) -> ProfileSpec:
    fit = profile.args.get("NodeResourcesFit")
    if not resources or not isinstance(fit, NodeResourcesFitArgs):
        return profile
    overwritten = msgspec.structs.replace(fit, ignored_resources=tuple(resources))
    return replace(profile, args=MappingProxyType({**profile.args, "NodeResourcesFit": overwritten}))


def _queue_sort_faults(resolved: list[ProfileSpec]) -> list[Fault]:
    """All profiles share one queue, so all must use the same QueueSort plugin."""

    def sorting(profile: ProfileSpec) -> tuple[str, object]:
        (plugin,) = profile.points[ExtensionPoint.QUEUE_SORT]
        return plugin.name, profile.args.get(plugin.name)

    return [
        Fault(
            f"profiles[{position}].plugins.queueSort",
            f"must be the same plugin with the same arguments as in profiles[0] ({sorting(resolved[0])[0]})",
        )
        for position, profile in enumerate(resolved)
        if sorting(profile) != sorting(resolved[0])
    ]
