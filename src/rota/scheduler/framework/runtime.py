"""The framework of a profile: its plugins, built and sorted by extension point, and the rules for calling them.

The rules are kube-scheduler's: which status ends what, in which order plugins run, what a skip leaves out. A plugin
that raises gives an Error status under its own name. Filters and scores over all nodes, and their reuse for equal pods,
are in `evaluation`.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rota.columns.arrays import BoolArray
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PreFilterResult
from rota.scheduler.framework.plugin_results import PluginMethods
from rota.scheduler.framework.registry import Binder, ProfileSpec, Registry, VolumeBinder, WaitingPods
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status
from rota.scheduler.framework.stopwatch import NO_STOPWATCH, Stopwatch


class UnboundError(RuntimeError):
    """This framework was built without a binder and cannot bind; build it with a binder."""


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """The combined result of all PreFilter plugins."""

    #: Success, or the reason why the attempt ends here.
    status: Status = SUCCESS
    #: The eligible nodes (None: all).
    node_names: frozenset[str] | None = None
    #: Prefilter masks by plugin: the rows to filter, and the status of the other rows.
    sieves: dict[str, tuple[BoolArray, Status]] = field(default_factory=dict)
    #: The plugins that reduced the nodes.
    narrowing: tuple[str, ...] = ()


class Framework:
    """The plugins of one profile. Also the handle that they get."""

    def __init__(
        self,
        profile: ProfileSpec,
        registry: Registry,
        *,
        binder: Binder | None = None,
        volume_binder: VolumeBinder | None = None,
        waiting_pods: WaitingPods | None = None,
        guard: AbstractContextManager[None] | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`guard` is entered around plugin calls of the queue; the scheduling cycle enters it around attempts.

        The `stopwatch` measures extension points; without one, nothing is measured.
        """
        self.guard = guard or nullcontext()
        self.stopwatch: Stopwatch = stopwatch or NO_STOPWATCH
        self.profile = profile
        self._binder = binder
        self._volume_binder = volume_binder
        self._waiting_pods = waiting_pods
        names = dict.fromkeys(enabled.name for plugins in profile.points.values() for enabled in plugins)
        self.plugins: dict[str, Any] = {}
        for name in names:
            plugin = registry[name]
            args = profile.args.get(name)
            self.plugins[name] = plugin(plugin.Args() if args is None else args, self)
        self._points = {
            point: tuple(self.plugins[enabled.name] for enabled in plugins) for point, plugins in profile.points.items()
        }
        self._adjusting = tuple(plugin for plugin in self.at(ExtensionPoint.PRE_FILTER) if hasattr(plugin, "add_pod"))
        decisive = (
            ExtensionPoint.PRE_FILTER,
            ExtensionPoint.FILTER,
            ExtensionPoint.PRE_SCORE,
            ExtensionPoint.SCORE,
        )
        #: Plugins whose results make up a decision, each once; and those of them that decide about reuse.
        self.deciding = tuple(dict.fromkeys(plugin for point in decisive for plugin in self.at(point)))
        self.filters = tuple(PluginMethods(plugin) for plugin in self.at(ExtensionPoint.FILTER))
        self.scorers = tuple(
            PluginMethods(self.plugins[each.name], each.weight) for each in profile.points.get(ExtensionPoint.SCORE, ())
        )
        #: Orders nodes by objectives instead of by the sum of scores; None in profiles without one.
        self.combiner: Any = next((each for each in self.plugins.values() if hasattr(each, "combined")), None)
        self.reusing_filter = tuple(
            plugin for plugin in self.at(ExtensionPoint.PRE_FILTER) if hasattr(plugin, "reuse_filter")
        )
        scoring = dict.fromkeys((*self.at(ExtensionPoint.PRE_SCORE), *self.at(ExtensionPoint.SCORE)))
        self.reusing_score = tuple(plugin for plugin in scoring if hasattr(plugin, "reuse_score"))

    @property
    def profile_name(self) -> str:
        """The scheduler name of the profile."""
        return self.profile.scheduler_name

    @property
    def binder(self) -> Binder:
        """Binds pods."""
        if self._binder is None:
            raise UnboundError(UnboundError.__doc__)
        return self._binder

    @property
    def volume_binder(self) -> VolumeBinder:
        """Binds persistent volumes."""
        if self._volume_binder is None:
            raise UnboundError(UnboundError.__doc__)
        return self._volume_binder

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that Permit plugins hold."""
        if self._waiting_pods is None:
            raise UnboundError(UnboundError.__doc__)
        return self._waiting_pods

    def at(self, point: ExtensionPoint) -> tuple[Any, ...]:
        """The plugins of a point, in order."""
        return self._points.get(point, ())

    def signature(self, pod: PodInfo) -> Hashable | None:
        """The combined signature of all deciding plugins for a pod; None if a plugin has none."""
        parts = []
        for plugin in self.deciding:
            sign = getattr(plugin, "signature", None)
            part = None if sign is None else sign(pod)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFiltered:
        """Run PreFilter: unresolvable ends it at once, unschedulable after all plugins ran."""
        state.skip_filter.clear()
        refusal = SUCCESS
        narrowed: frozenset[str] | None = None
        narrowing: list[str] = []
        sieves: dict[str, tuple[BoolArray, Status]] = {}
        for plugin in self.at(ExtensionPoint.PRE_FILTER):
            try:
                result: PreFilterResult = plugin.pre_filter(state, pod, cluster)
                code = result.status.code
            except Exception as error:  # noqa: BLE001 - plugins are other people's code
                return PreFiltered(statuses.fault(error, plugin=plugin.name))
            if code is Code.SKIP:
                state.skip_filter.add(plugin.name)
                continue
            if code is not Code.SUCCESS:
                answer = result.status.by(plugin.name)
                if code is not Code.UNSCHEDULABLE:
                    return PreFiltered(answer if answer.rejected else as_error(answer))
                refusal = answer
                continue
            if result.candidates is not None:
                sieves[plugin.name] = result.candidates, result.refusal.by(plugin.name)
            if result.node_names is not None:
                narrowing.append(plugin.name)
                narrowed = result.node_names if narrowed is None else narrowed & result.node_names
                if not narrowed:
                    return PreFiltered(_nobody_satisfies(narrowing), narrowed, narrowing=tuple(narrowing))
        return PreFiltered(refusal, narrowed, sieves, tuple(narrowing))

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Run the filters on one node as `node` shows it, and with the pods nominated to it; a refusal decides."""
        coming = state.nominations.get(node.name)
        if coming:
            answer = self.filter_with_nominated_pods(state, pod, node, coming)
            if not answer.ok:
                return answer
        return self._filter_as_is(state, pod, node, self.filters)

    def machine_filter(self, state: CycleState) -> Callable[[CycleState, PodInfo, NodeInfo], Status]:
        """A filter of one node by the plugins that do not depend on the pods of the node."""
        dependent = self.pod_filters(state)
        chosen = [each for each in self.filters if each.name not in state.skip_filter and each.plugin not in dependent]
        return lambda state, pod, node: self._filter_as_is(state, pod, node, chosen)

    def pod_filters(self, state: CycleState) -> Sequence[Any]:
        """The plugins of this attempt whose Filter depends on the pods of nodes."""
        return [
            forms.plugin
            for forms in self.filters
            if forms.name not in state.skip_filter and (forms.watches_pods or forms.plugin in self._adjusting)
        ]

    def filter_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, coming: Iterable[PodInfo]
    ) -> Status:
        """Run the filters on a node as if its nominated pods were there already."""
        crowded, counted = node.copy(), state.clone()
        for other in coming:
            crowded.add_pod(other)
            answer = self.add_existing_pod(counted, pod, other, crowded)
            if not answer.ok:
                return answer
        return self._filter_as_is(counted, pod, crowded, self.filters)

    def _filter_as_is(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, filters: Iterable[PluginMethods]
    ) -> Status:
        for forms in filters:
            if forms.name in state.skip_filter:
                continue
            judge = forms.filter or partial(_by_vector, forms)
            answer = guarded(forms.name, judge, state, pod, node)
            if not answer.ok:
                return answer if answer.rejected else as_error(answer)
        return SUCCESS

    def add_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Update the plugins' states: `other` was added to `node`."""
        return self._adjust("add_pod", state, pod, other, node)

    def remove_existing_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Update the plugins' states: `other` was removed from `node`."""
        return self._adjust("remove_pod", state, pod, other, node)

    def _adjust(self, method: str, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        for plugin in self._adjusting:
            if plugin.name not in state.skip_filter:
                answer = guarded(plugin.name, getattr(plugin, method), state, pod, other, node)
                if not answer.ok:
                    return as_error(answer)
        return SUCCESS


def guarded(name: str, call: Callable[..., Status | None], *args: Any) -> Status:
    """Call a plugin; None means success, and an exception becomes an Error status under its name."""
    try:
        answer = call(*args)
    except Exception as error:  # noqa: BLE001 - plugins are other people's code
        return statuses.fault(error, plugin=name)
    return SUCCESS if answer is None or answer.ok else answer.by(name)


def _by_vector(forms: PluginMethods, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
    """Call a filter that has only the vector form for one node, with the pods that `node` shows."""
    cluster = state.cluster
    assert cluster is not None
    assert forms.filter_nodes is not None
    assert forms.explain is not None
    with cluster.what_if():
        there = cluster.by_name[node.name].pods
        for uid in [uid for uid in there if uid not in node.pods]:
            cluster.remove_pod(uid)
        for uid, other in node.pods.items():
            if uid not in there:
                cluster.add_pod(other, node.name)
        codes = forms.filter_nodes(state, pod, cluster, np.array([node.row]))
    return SUCCESS if codes is None or not codes[0] else forms.explain(state, pod, int(codes[0]))


def as_error(answer: Status) -> Status:
    """Turn a status that is not allowed at a point into an Error."""
    return answer if answer.code is Code.ERROR else Status(Code.ERROR, answer.reasons, answer.plugin)


def _nobody_satisfies(plugins: Iterable[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return statuses.unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return statuses.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
