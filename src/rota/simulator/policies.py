"""Policies by name: scheduler configurations that a simulation compares.

A policy is a KubeSchedulerConfiguration like any other: the one of `rota up`, or a file. The names here are short forms
for the policies of shared GPUs: the filters of the default profile, and one score plugin alone, or several with weights
(`pwr:30+fgd:70`).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.kit.errors import UserError
from rota.scheduler.config import documents, encoder, resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.wire import API_VERSION, KIND
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, points_of
from rota.scheduler.framework.registry import Registry
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource
from rota.scheduler.plugin_registry.third_party import Loaded

#: The stock configuration.
DEFAULT: Final = "default"
#: Short names, and the score plugin of each.
SCORERS: Final[Mapping[str, str]] = {
    "random": "RandomPlacement",
    "dotprod": "DotProduct",
    "clustering": "GpuClustering",
    "packing": "GpuPacking",
    "bestfit": "BestFit",
    "fgd": "FragmentationGradient",
    "cgd": "CapacityGradient",
    "pwr": "PowerAware",
}
#: Arguments that a simulation fills in, if a plugin has them and the configuration does not say; for validation.
_EXAMPLES: Final[Mapping[str, Any]] = {"seed": 0, "typicalPods": [{"gpus": 1}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A configuration with a name for reports."""

    name: str
    document: Mapping[str, Any]
    registry: Registry

    def load(self, arguments: Mapping[str, Any]) -> Loaded:
        """The configuration with arguments that a simulation knows, such as its seed, for plugins that take them."""
        return third_party.load_settings(resolution.read(self._filled(arguments)), self.registry)

    def _filled(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        document = msgspec.json.decode(msgspec.json.encode(self.document))
        for profile in document.get("profiles") or ():
            given = {each["name"]: each.setdefault("args", {}) for each in profile.setdefault("pluginConfig", [])}
            for name in _enabled(profile):
                if name not in self.registry:
                    continue
                fields = {field.encode_name for field in msgspec.structs.fields(self.registry[name].Args)}
                known = {key: value for key, value in arguments.items() if key in fields}
                if known and name not in given:
                    given[name] = {}
                    profile["pluginConfig"].append({"name": name, "args": given[name]})
                for key, value in known.items():
                    given[name].setdefault(key, value)
        return document  # type: ignore[no-any-return]


def _enabled(profile: Mapping[str, Any]) -> list[str]:
    return [each["name"] for section in (profile.get("plugins") or {}).values() for each in section.get("enabled", ())]


def named(name: str, plugins: Sequence[Path] = ()) -> Policy:
    """The policy of a short name, or of a configuration file."""
    registry = ConfigurationSource(None, tuple(plugins)).registry() if plugins else builtin.registry()
    if name == DEFAULT:
        return Policy(
            name=name,
            document=encoder.to_document(third_party.default(registry).configuration.settings),
            registry=registry,
        )
    if (weights := _weights(name)) is not None:
        return Policy(name=name, document=_scored_by(weights, registry), registry=registry)
    path = Path(name)
    if not path.is_file():
        known = ", ".join((DEFAULT, *SCORERS))
        raise UserError(f'there is no policy "{name}"', f"give one of {known}, or the file of a configuration")
    # `module:Class` in a profile also finds modules beside the file.
    if (folder := str(path.absolute().parent)) not in sys.path:
        sys.path.insert(0, folder)
    try:
        settings = resolution.read(documents.parse(path.read_bytes()))
        policy = Policy(name=path.stem, document=encoder.to_document(settings), registry=registry)
        policy.load(_EXAMPLES)
    except ConfigurationError as error:
        raise UserError(f"{path}: {'; '.join(map(str, error.faults))}") from error
    return policy


def _weights(name: str) -> dict[str, int] | None:
    """The score plugins of a short name and their weights; None if it is not one."""
    found: dict[str, int] = {}
    for part in name.split("+"):
        short, _, weight = part.partition(":")
        if short not in SCORERS or not (weight or "1").isdecimal():
            return None
        found[SCORERS[short]] = int(weight or 1)
    return found


def _scored_by(weights: Mapping[str, int], registry: Registry) -> dict[str, Any]:
    scorers = [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
    # The heaviest plugin that chooses devices has the last word.
    chooses = [name for name in weights if ExtensionPoint.RESERVE in points_of(registry[name])]
    chooses.sort(key=weights.__getitem__)
    plugins = {
        "multiPoint": {"enabled": [{"name": "GpuShare"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": scorers},
        "reserve": {"enabled": [{"name": name} for name in chooses if weights[name]]},
        "preScore": {"disabled": [{"name": "*"}]},
        "postFilter": {"disabled": [{"name": "*"}]},
    }
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
