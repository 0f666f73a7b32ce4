"""An extender that speaks kube-scheduler's extender protocol, over any transport.

`WireExtender` builds the request of each step and reads the response. An `Exchange` carries the bodies: over HTTP, or
through a child process. Every failure is raised as an `ExtenderError` with the extender's name.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.extenders import messages
from rota.scheduler.extenders.extender_interface import ClusterReader, Document, ExtenderError, FilterVerdict
from rota.scheduler.extenders.messages import FilterResult, MalformedAnswer
from rota.scheduler.preemption.victims import Candidate

_T = TypeVar("_T")


class ExchangeError(Exception):
    """A request got no response; the message says why."""


class Exchange(Protocol):
    """Carries a request to an extender and returns the response."""

    async def ask(self, verb: str, body: bytes) -> bytes:
        """Send a body for a verb and return the response; `ExchangeError` if none came in time."""

    async def close(self) -> None:
        """Release its resources."""


class WireExtender:
    """An extender as configured; implements `extender_interface.Extender`."""

    def __init__(self, settings: Settings, name: str, *, exchange: Exchange, cluster_reader: ClusterReader) -> None:
        self._settings: Final = settings
        self._exchange: Final = exchange
        self._cluster_reader: Final = cluster_reader
        self._managed: Final = frozenset(resource.name for resource in settings.managed_resources)
        self.name: Final = name
        self.weight: Final = settings.weight
        self.ignorable: Final = settings.ignorable
        self.is_filter: Final = bool(settings.filter_verb)
        self.is_prioritizer: Final = bool(settings.prioritize_verb)
        self.supports_preemption: Final = bool(settings.preempt_verb)
        self.is_binder: Final = bool(settings.bind_verb)

    def interested(self, pod: Document) -> bool:
        """See `extender_interface.Extender`."""
        return not self._managed or any(name in self._managed for name in _resource_names(pod))

    async def filter(self, pod: Document, nodes: Sequence[str]) -> FilterVerdict:
        """See `extender_interface.Extender`."""
        body = await self._ask(self._settings.filter_verb, self._about_nodes(pod, nodes))
        result = self._read(body, messages.filter_result)
        if result.error:
            raise ExtenderError(self.name, result.error)
        kept = set(self._kept(result))
        if unknown := kept.difference(nodes):
            raise ExtenderError(self.name, f"lets nodes pass that it was not asked about: {', '.join(sorted(unknown))}")
        return FilterVerdict(
            feasible=tuple(name for name in nodes if name in kept),
            failed=result.failed,
            unresolvable=result.unresolvable,
        )

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> Mapping[str, int]:
        """See `extender_interface.Extender`."""
        body = await self._ask(self._settings.prioritize_verb, self._about_nodes(pod, nodes))
        return self._read(body, messages.host_priorities)

    async def preempt(self, pod: Document, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """See `extender_interface.Extender`."""
        body = await self._ask(self._settings.preempt_verb, self._about_victims(pod, candidates))
        chosen = self._read(body, messages.preemption_result)
        order = {candidate.node_name: place for place, candidate in enumerate(candidates)}
        return [
            self._candidate(node, chosen[node])
            for node in sorted(chosen, key=lambda name: (order.get(name, len(order)), name))
        ]

    async def bind(self, pod: Document, node: str) -> None:
        """See `extender_interface.Extender`."""
        body = await self._ask(self._settings.bind_verb, messages.binding_args(pod, node))
        if problem := self._read(body, messages.binding_result):
            raise ExtenderError(self.name, problem)

    async def close(self) -> None:
        """See `extender_interface.Extender`."""
        await self._exchange.close()

    def _about_nodes(self, pod: Document, names: Sequence[str]) -> bytes:
        if self._settings.node_cache_capable:
            return messages.args_with_names(pod, names)
        found = (self._cluster_reader.node(name) for name in names)
        return messages.args_with_nodes(pod, (node for node in found if node is not None))

    def _about_victims(self, pod: Document, candidates: Sequence[Candidate]) -> bytes:
        if self._settings.node_cache_capable:
            return messages.preemption_args_with_uids(pod, candidates)
        whole = []
        for candidate in candidates:
            found = (self._cluster_reader.pod(victim.uid) for victim in candidate.victims)
            whole.append((candidate, [victim for victim in found if victim is not None]))
        return messages.preemption_args_with_pods(pod, whole)

    def _kept(self, result: FilterResult) -> Sequence[str]:
        if self._settings.node_cache_capable and result.node_names is not None:
            return result.node_names
        return result.nodes or ()

    def _candidate(self, node: str, victims: messages.MetaVictims) -> Candidate:
        there = self._cluster_reader.pods_on(node)
        if there is None:
            raise ExtenderError(self.name, f"wants to evict pods from {node}, which is no node of this cluster")
        if missing := [uid for uid in victims.uids if uid not in there]:
            raise ExtenderError(self.name, f"wants to evict pod {missing[0]} from node {node}, where it is not")
        return Candidate(node, tuple(there[uid] for uid in victims.uids), victims.violations)

    async def _ask(self, verb: str, body: bytes) -> bytes:
        try:
            return await self._exchange.ask(verb, body)
        except ExchangeError as error:
            raise ExtenderError(self.name, f"{verb}: {error}") from error

    def _read(self, body: bytes, reader: Callable[[bytes], _T]) -> _T:
        try:
            return reader(body)
        except MalformedAnswer as error:
            raise ExtenderError(self.name, f"malformed answer: {error}") from error


def _resource_names(pod: Document) -> list[str]:
    spec = pod.get("spec") or {}
    names: list[str] = []
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        names += resources.get("requests") or ()
        names += resources.get("limits") or ()
    return names
