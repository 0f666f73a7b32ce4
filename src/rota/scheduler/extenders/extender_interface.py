"""What the scheduler knows of an extender, whichever way it is reached.

An extender is asked about one pod at a time: which of these nodes will do (filter), how good they are (prioritize),
whom to evict (preempt), and to do the binding itself (bind). It has those of the four steps that its configuration
names a verb for. Pods and nodes go by document and by name; whatever goes wrong, a malformed answer included, is
raised as an `ExtenderError` that says which extender it was. `panel.ExtenderChain` asks all extenders of a scheduler by
kube-scheduler's rules; who schedules talks to the panel, not to single extenders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from rota.columns.pods import PodInfo
from rota.scheduler.preemption.victims import Candidate

Document = Mapping[str, Any]

#: In whose name all extenders together refuse nodes; a pod they refused is woken by any event.
PLUGIN: Final = "Extender"
#: The best score that an extender gives; plugins' scores reach ten times as far.
MAX_EXTENDER_SCORE: Final = 10
#: What an extender's score is multiplied by, besides its weight.
SCALE: Final = 10


class ExtenderError(Exception):
    """An extender did not answer, or not as agreed."""

    def __init__(self, extender: str, problem: str) -> None:
        self.extender = extender
        self.problem = problem
        super().__init__(f"extender {extender}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterVerdict:
    """What an extender thinks of the nodes it was shown."""

    #: In the order in which they were asked about.
    feasible: tuple[str, ...]
    #: By node, why not; evicting pods might help.
    failed: Mapping[str, str] = field(default_factory=dict)
    #: By node, why not; no eviction can help. Wins over `failed`.
    unresolvable: Mapping[str, str] = field(default_factory=dict)


class ClusterReader(Protocol):
    """Where extenders get whole objects, since most keep no cache of their own; None where there is no such object."""

    def node(self, name: str) -> Document | msgspec.Raw | None:
        """Give a node as the API has it, or its JSON as it came, which saves reading and writing thousands of them."""

    def pod(self, uid: str) -> Document | None:
        """Give a pod as the API has it."""

    def pods_on(self, node: str) -> Mapping[str, PodInfo] | None:
        """Give the pods on a node by uid, for extenders that choose victims."""


class Extender(Protocol):
    """One extender. Calls may run at the same time; each ends by the extender's own deadline."""

    @property
    def name(self) -> str:
        """What it is called in messages: its address, or its command."""

    @property
    def weight(self) -> int:
        """What its scores are multiplied by."""

    @property
    def ignorable(self) -> bool:
        """Whether scheduling goes on without it when it fails."""

    @property
    def is_filter(self) -> bool:
        """Whether it filters nodes."""

    @property
    def is_prioritizer(self) -> bool:
        """Whether it rates nodes."""

    @property
    def supports_preemption(self) -> bool:
        """Whether it has a say in who is evicted."""

    @property
    def is_binder(self) -> bool:
        """Whether it binds pods itself."""

    def interested(self, pod: Document) -> bool:
        """Whether the pod is its business: it manages no resources in particular, or one that the pod names."""

    async def filter(self, pod: Document, nodes: Sequence[str]) -> FilterVerdict:
        """Say which of the nodes will do."""

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> Mapping[str, int]:
        """Rate nodes, 0 to 10; a node that is not mentioned has 0."""

    async def preempt(self, pod: Document, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Choose nodes and victims: leave nodes out, spare victims, or name others that are on those nodes."""

    async def bind(self, pod: Document, node: str) -> None:
        """Bind the pod to the node; return when that is done."""

    async def close(self) -> None:
        """Let go of connections or of the process."""
