"""Plugin classes, profiles, and the handle that plugins get.

A `Registry` maps names to plugin classes. A `ProfileSpec` is a profile after merging with the defaults: which plugins
run at which point, in which order, with which weight and arguments. `rota.scheduler.config` makes profiles.
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
    """Binds pods for a Bind plugin."""

    async def bind(self, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod to the node; a refusal by the API server is a status."""


class VolumeBinder(Protocol):
    """Binds volumes for the VolumeBinding plugin."""

    async def bind_volumes(
        self,
        pod: PodInfo,
        node_name: str,
        *,
        volumes: Sequence[Mapping[str, Any]],
        claims: Sequence[Mapping[str, Any]],
        timeout_s: float,
    ) -> Status:
        """Write these volumes and claims, then wait until the pod's claims are bound or the binding fails."""


class WaitingPod(Protocol):
    """A pod that has a node and is held by Permit plugins."""

    @property
    def pod(self) -> PodInfo:
        """The pod."""

    @property
    def node_name(self) -> str:
        """Its node."""

    @property
    def pending(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of a plugin; it goes on when all plugins have allowed it."""

    def reject(self, plugin: str, reason: str) -> None:
        """Reject the pod on behalf of a plugin; it returns to the queue."""


class WaitingPods(Protocol):
    """The pods that are held by Permit plugins."""

    def get(self, uid: str) -> WaitingPod | None:
        """A waiting pod, if it is one."""

    def __iter__(self) -> Iterator[WaitingPod]:
        """All of them."""


class Handle(Protocol):
    """The services of the framework for its plugins."""

    @property
    def profile_name(self) -> str:
        """The scheduler name of the profile."""

    @property
    def binder(self) -> Binder:
        """Binds pods."""

    @property
    def volume_binder(self) -> VolumeBinder:
        """Binds persistent volumes."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that Permit plugins hold, to be allowed or rejected."""

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Run the profile's filters on one node, as it is and with the pods nominated to it."""

    def machine_filter(self, state: CycleState) -> Callable[[CycleState, PodInfo, NodeInfo], Status]:
        """A filter of one node by the plugins that do not depend on the pods of the node."""

    def pod_filters(self, state: CycleState) -> Sequence[Any]:
        """The plugins of this attempt whose Filter depends on the pods of nodes."""

    def add_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Update all plugins' states: `other` was added to `node`."""

    def remove_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Update all plugins' states: `other` was removed from `node`."""


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
        """Add a class; names are unique."""
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
        """The points that the plugin takes part in."""
        return points_of(self[name])


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin at a point, with the weight of its scores."""

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """A profile after merging with the defaults, ready to be built."""

    scheduler_name: str = "default-scheduler"
    #: The plugins of every point; a point that is absent runs none.
    points: Mapping[ExtensionPoint, tuple[Enabled, ...]]
    #: Typed arguments by plugin name; a plugin that is absent here gets its `Args()` defaults.
    args: Mapping[str, msgspec.Struct] = field(default_factory=dict)
