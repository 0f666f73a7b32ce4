"""The scheduler's interface to an extender, whatever its transport.

An extender is called for one pod at a time: which nodes are feasible (filter), how good they are (prioritize), which
pods to evict (preempt), and to bind the pod (bind). It implements the steps that its configuration names a verb for.
Pods are passed as documents, nodes by name. Every failure, including a malformed response, is raised as an
`ExtenderError` with the extender's name. The scheduler calls `chain.ExtenderChain`, which applies kube-scheduler's
rules to all extenders, and not single extenders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from rota.columns.pods import PodInfo
from rota.scheduler.preemption.victims import Candidate

Document = Mapping[str, Any]

#: The plugin name of refusals by extenders; any event wakes a pod that they refused.
PLUGIN: Final = "Extender"
#: The highest score of an extender; plugins' scores reach ten times as far.
MAX_EXTENDER_SCORE: Final = 10
#: The factor of an extender's score, besides its weight.
SCALE: Final = 10


class ExtenderError(Exception):
    """An extender did not respond, or not by the protocol."""

    def __init__(self, extender: str, problem: str) -> None:
        self.extender = extender
        self.problem = problem
        super().__init__(f"extender {extender}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterVerdict:
    """The result of an extender's filter."""

    #: In the order of the request.
    feasible: tuple[str, ...]
    #: By node, why it was refused; evicting pods might help.
    failed: Mapping[str, str] = field(default_factory=dict)
    #: By node, why it was refused; no eviction can help. Overrides `failed`.
    unresolvable: Mapping[str, str] = field(default_factory=dict)


class ClusterReader(Protocol):
    """Source of whole objects for extenders that keep no cache; None where an object does not exist."""

    def node(self, name: str) -> Document | msgspec.Raw | None:
        """A node as the API has it, or its raw JSON, which saves decoding and encoding thousands of nodes."""

    def pod(self, uid: str) -> Document | None:
        """A pod as the API has it."""

    def pods_on(self, node: str) -> Mapping[str, PodInfo] | None:
        """The pods on a node by uid, for extenders that choose victims."""


class Extender(Protocol):
    """One extender. Calls may run concurrently; each ends by the extender's own deadline."""

    @property
    def name(self) -> str:
        """Its name in messages: its address or its command."""

    @property
    def weight(self) -> int:
        """The factor of its scores."""

    @property
    def ignorable(self) -> bool:
        """Whether scheduling continues without it when it fails."""

    @property
    def is_filter(self) -> bool:
        """Whether it filters nodes."""

    @property
    def is_prioritizer(self) -> bool:
        """Whether it scores nodes."""

    @property
    def supports_preemption(self) -> bool:
        """Whether it takes part in preemption."""

    @property
    def is_binder(self) -> bool:
        """Whether it binds pods itself."""

    def interested(self, pod: Document) -> bool:
        """Whether it handles the pod: it manages no particular resources, or one that the pod requests."""

    async def filter(self, pod: Document, nodes: Sequence[str]) -> FilterVerdict:
        """Filter the nodes."""

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> Mapping[str, int]:
        """Score nodes, 0 to 10; a node that is absent has 0."""

    async def preempt(self, pod: Document, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Choose nodes and victims: remove nodes, spare victims, or name other pods of those nodes."""

    async def bind(self, pod: Document, node: str) -> None:
        """Bind the pod to the node; return when that is done."""

    async def close(self) -> None:
        """Release connections or the process."""
