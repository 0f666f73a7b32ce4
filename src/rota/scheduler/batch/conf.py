"""The configuration of batch scheduling, in the format of volcano-scheduler.conf.

`actions` is a list in a text, `tiers` hold plugins with switches and arguments, `configurations` hold arguments of
actions. An unknown setting is refused with its path; nothing is ignored.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from rota.scheduler.batch import arguments
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.config.faults import ConfigurationError, Fault

#: Switches of a plugin with their defaults.
SWITCHES: Final = {
    **dict.fromkeys(
        (
            "enableJobOrder",
            "enableJobReady",
            "enableJobPipelined",
            "enableTaskOrder",
            "enablePreemptable",
            "enableReclaimable",
            "enablePreemptive",
            "enableQueueOrder",
            "enablePredicate",
            "enableNodeOrder",
            "enableJobEnqueued",
            "enabledVictim",
            "enableJobStarving",
            "enabledOverused",
            "enabledAllocatable",
            "enabledHyperNodeOrder",
            "enabledSubJobReady",
            "enabledSubJobPipelined",
            "enabledSubJobOrder",
            "enabledHyperNodeGradient",
        ),
        True,
    ),
    "enableHierarchy": False,
}
#: Switches of Volcano that switch nothing: none of its plugins offers what they are about.
WITHOUT_EFFECT: Final = frozenset({"enableBestNode", "enableTargetJob", "enableReservedNodes", "enabledClusterOrder"})
#: Other names that Volcano's documents use for plugins.
ALIASES: Final = {"numaaware": "numa-aware"}
#: The sources of measured usage, as `metrics.type` names them.
METRICS_SERVER: Final = "metrics_server"
PROMETHEUS: Final = "prometheus"
_ADDRESS: Final = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
METRICS_S: Final = 30.0
DEFAULT: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier."""

    plugin: type[BatchPlugin]
    switches: Mapping[str, bool]
    arguments: Mapping[str, Any]

    @property
    def hierarchy(self) -> bool:
        """Whether the plugin reads queues as a tree."""
        return self.switches["enableHierarchy"]


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """Where measured usage is read, and how often."""

    #: Seconds between two readings.
    interval_s: float = METRICS_S
    #: The address of a Prometheus; "" for metrics.k8s.io.
    address: str = ""
    #: The label by which that Prometheus names the node of a sample.
    node_label: str = "node"


@dataclass(frozen=True, slots=True)
class BatchConfiguration:
    """A configuration, checked and complete."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    #: By action.
    arguments: Mapping[str, Mapping[str, Any]]
    #: Where measured usage is read.
    metrics: MetricsSource = MetricsSource()

    def uses(self, *names: str) -> bool:
        """Whether one of these plugins is configured."""
        return any(option.plugin.name in names for tier in self.tiers for option in tier)


@dataclass(frozen=True, slots=True)
class Known:
    """The actions and plugins that exist."""

    actions: Mapping[str, Mapping[str, Argument]]
    plugins: Mapping[str, type[BatchPlugin]]


def parse(text: str, known: Known) -> BatchConfiguration:
    """Read a configuration; raises `ConfigurationError` with all errors."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "is no YAML"
        raise ConfigurationError([Fault("", f"cannot be read: {problem}")]) from error
    reader = _Reader(known)
    configuration = reader.read(document)
    if reader.faults:
        raise ConfigurationError(reader.faults)
    return configuration


class _Reader:
    def __init__(self, known: Known) -> None:
        self._known = known
        self.faults: list[Fault] = []

    def read(self, document: Any) -> BatchConfiguration:
        if not isinstance(document, dict):
            self._fault("", "expected an object with actions and tiers")
            return BatchConfiguration((), (), {})
        for name in document.keys() - {"actions", "tiers", "configurations", "metrics"}:
            self._fault(str(name), "is not a field; known are actions, configurations, metrics, tiers")
        return BatchConfiguration(
            self._actions(document.get("actions")),
            self._tiers(document.get("tiers")),
            self._configurations(document),
            self._metrics(document.get("metrics")),
        )

    def _metrics(self, metrics: Any) -> MetricsSource:
        """Read the source of measured usage."""
        if metrics is None:
            return MetricsSource()
        if not isinstance(metrics, dict):
            self._fault("metrics", "expected an object")
            return MetricsSource()
        for name in metrics.keys() - {"type", "address", "interval", "nodeLabel"}:
            self._fault(f"metrics.{name}", "is not a field; known are address, interval, nodeLabel, type")
        source, address = metrics.get("type", METRICS_SERVER), metrics.get("address", "")
        if source not in (METRICS_SERVER, PROMETHEUS):
            self._fault("metrics.type", f"expected {METRICS_SERVER} or {PROMETHEUS}, found {source!r}")
        elif source == PROMETHEUS and not (isinstance(address, str) and _ADDRESS.fullmatch(address)):
            self._fault("metrics.address", "expected the address of the Prometheus, such as http://prometheus:9090")
        elif source == METRICS_SERVER and metrics.keys() & {"address", "nodeLabel"}:
            self._fault("metrics.address", f"the API server serves metrics.k8s.io; leave it out, or use {PROMETHEUS}")
        label = metrics.get("nodeLabel", "node")
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            self._fault("metrics.nodeLabel", f"expected the name of a label, found {label!r}")
        try:
            interval_s = arguments.seconds(metrics.get("interval", f"{METRICS_S:g}s"))
        except ValueError as error:
            self._fault("metrics.interval", str(error))
            interval_s = METRICS_S
        return MetricsSource(interval_s, address if source == PROMETHEUS else "", label)

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def _actions(self, text: Any) -> tuple[str, ...]:
        if not isinstance(text, str) or not text.strip():
            self._fault("actions", "expected the names of actions, separated by commas")
            return ()
        names = tuple(name.strip() for name in text.split(","))
        for position, name in enumerate(names):
            if name not in self._known.actions:
                known = ", ".join(sorted(self._known.actions))
                self._fault(f"actions[{position}]", f'there is no action "{name}"; known are {known}')
        return names

    def _tiers(self, tiers: Any) -> tuple[tuple[PluginOption, ...], ...]:
        seen: set[str] = set()
        result = []
        for place, tier in self._listed(tiers, "tiers"):
            for name in tier.keys() - {"plugins"}:
                self._fault(f"{place}.{name}", "is not a field; a tier has plugins")
            options = [
                option
                for at, plugin in self._listed(tier.get("plugins"), f"{place}.plugins")
                if (option := self._plugin(plugin, at, seen)) is not None
            ]
            result.append(tuple(options))
        return tuple(result)

    def _plugin(self, document: Mapping[str, Any], path: str, seen: set[str]) -> PluginOption | None:
        name = document.get("name")
        plugin = self._known.plugins.get(ALIASES.get(name, name)) if isinstance(name, str) else None
        if plugin is None:
            known = ", ".join(sorted(self._known.plugins))
            self._fault(f"{path}.name", f'there is no plugin "{name}"; known are {known}')
            return None
        if plugin.name in seen:
            self._fault(f"{path}.name", f'"{name}" is configured twice; remove one of the two')
        seen.add(plugin.name)
        switches = dict(SWITCHES)
        for field, value in document.items():
            if field in ("name", "arguments"):
                continue
            if field in WITHOUT_EFFECT:
                self._fault(f"{path}.{field}", "no plugin offers what it switches; remove it")
            elif field not in SWITCHES:
                self._fault(f"{path}.{field}", "is not a switch; known are " + ", ".join(sorted(SWITCHES)))
            elif not isinstance(value, bool):
                self._fault(f"{path}.{field}", "expected true or false")
            else:
                switches[field] = value
        for argument in plugin.required:
            if argument not in (document.get("arguments") or ()):
                self._fault(f"{path}.arguments.{argument}", "is required")
        return PluginOption(plugin, switches, self._arguments(document, plugin.arguments, path))

    def _configurations(self, document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        result: dict[str, Mapping[str, Any]] = {
            name: arguments.read_all({}, known, path="")[0] for name, known in self._known.actions.items()
        }
        for place, entry in self._listed(document.get("configurations"), "configurations"):
            for field in entry.keys() - {"name", "arguments"}:
                self._fault(f"{place}.{field}", "is not a field; known are arguments, name")
            name = entry.get("name")
            if not isinstance(name, str) or name not in self._known.actions:
                known = ", ".join(sorted(self._known.actions))
                self._fault(f"{place}.name", f'there is no action "{name}"; known are {known}')
                continue
            result[name] = self._arguments(entry, self._known.actions[name], place)
        return result

    def _arguments(self, document: Mapping[str, Any], known: Mapping[str, Argument], path: str) -> Mapping[str, Any]:
        given = document.get("arguments")
        if given is None:
            given = {}
        if not isinstance(given, dict):
            self._fault(f"{path}.arguments", "expected an object")
            given = {}
        values, faults = arguments.read_all(
            {str(name): value for name, value in given.items()}, known, path=f"{path}.arguments"
        )
        self.faults += faults
        return values

    def _listed(self, items: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if items is None:
            return
        if not isinstance(items, list):
            self._fault(path, "expected a list")
            return
        for position, item in enumerate(items):
            place = f"{path}[{position}]"
            if isinstance(item, dict):
                yield place, item
            else:
                self._fault(place, "expected an object")
