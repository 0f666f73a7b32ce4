"""Which plugins exist, what a plugin class must look like, and what it may ask of the framework.

A `Registry` maps names to plugin classes. A `ProfileSpec` is a profile after merging with the defaults: which plugins
run at which point, in which order, with which weight and arguments. Where profiles come from is not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, points_of
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status


class NoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a plugin that takes none."""


class Binder(Protocol):
    """The port through which a Bind plugin reaches the world."""

    async def bind(self, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod to the node; a refusal by the API server is a status."""


class VolumeBinder(Protocol):
    """The port through which VolumeBinding reaches the world."""

    async def bind_volumes(
        self,
        pod: PodInfo,
        node_name: str,
        *,
        volumes: Sequence[Mapping[str, Any]],
        claims: Sequence[Mapping[str, Any]],
        timeout_s: float,
    ) -> Status:
        """Write these volumes and claims as they are, then wait until the pod's claims are bound, or not."""


class WaitingPod(Protocol):
    """A pod that has a node and is held by Permit plugins."""

    @property
    def pod(self) -> PodInfo:
        """Which pod."""

    @property
    def node_name(self) -> str:
        """Where it is to go."""

    @property
    def pending(self) -> tuple[str, ...]:
        """The plugins that have not said yes."""

    def allow(self, plugin: str) -> None:
        """Say yes in the name of a plugin; the pod goes on when all have."""

    def reject(self, plugin: str, reason: str) -> None:
        """Send the pod back to the queue in the name of a plugin."""


class WaitingPods(Protocol):
    """The pods that are held by Permit plugins."""

    def get(self, uid: str) -> WaitingPod | None:
        """Give one of them."""

    def __iter__(self) -> Iterator[WaitingPod]:
        """All of them."""


class Handle(Protocol):
    """What a plugin may ask of the framework that it was built into."""

    @property
    def profile_name(self) -> str:
        """The scheduler name of the profile."""

    @property
    def binder(self) -> Binder:
        """The way to bind pods."""

    @property
    def volume_binder(self) -> VolumeBinder:
        """The way to bind persistent volumes."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that Permit plugins hold, to be allowed or rejected."""

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Run the profile's filters on one node, as it is and with the pods nominated to it."""

    def machine_filter(self, state: CycleState) -> Callable[[CycleState, PodInfo, NodeInfo], Status]:
        """Give a filter of one node made of those that do not care which pods are on it."""

    def pod_filters(self, state: CycleState) -> Sequence[Any]:
        """Give the plugins of this attempt whose Filter depends on the pods that are on nodes."""

    def add_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Tell all plugins' states that `other` was added to `node`."""

    def remove_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Tell all plugins' states that `other` was taken from `node`."""


class PluginClass(Protocol):
    """A class that can be registered: a name, a typed argument struct, a constructor of two arguments."""

    name: str
    #: The type of the arguments; its fields are what `pluginConfig[].args` may hold. `NoArgs` if there are none.
    Args: type[msgspec.Struct]

    def __call__(self, args: Any, handle: Handle) -> Any:
        """Build the plugin for one profile."""


class UnknownPluginError(LookupError):
    """No plugin of that name; enable one that exists, or install the package that provides it."""


class Registry:
    """Plugin classes by name."""

    def __init__(self, classes: Iterable[Any] = ()) -> None:
        self._classes: dict[str, Any] = {}
        for each in classes:
            self.register(each)

    def register(self, plugin: Any) -> None:
        """Add a class; a name can be taken once."""
        name = plugin.name
        if name in self._classes:
            raise ValueError(f"plugin {name!r} is registered twice; rename one of the two classes")
        if not points_of(plugin):
            raise ValueError(f"plugin {name!r} has no method of any extension point")
        self._classes[name] = plugin

    def __getitem__(self, name: str) -> Any:
        try:
            return self._classes[name]
        except KeyError:
            raise UnknownPluginError(
                f"no plugin named {name!r}; known are {', '.join(sorted(self._classes))}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def points(self, name: str) -> frozenset[ExtensionPoint]:
        """Give the points that the plugin takes part in."""
        return points_of(self[name])


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin at a point, with the weight of its scores."""

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """A profile, merged and complete: ready to be built."""

    scheduler_name: str = "default-scheduler"
    #: Every point at which plugins run; a point that is absent runs none.
    points: Mapping[ExtensionPoint, tuple[Enabled, ...]]
    #: Typed arguments by plugin name; a plugin that is absent here gets its `Args()` defaults.
    args: Mapping[str, msgspec.Struct] = field(default_factory=dict)
