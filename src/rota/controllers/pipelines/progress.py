"""The state of a run from its objects: the pipeline that it started with, and the states of its step runs.

Step runs are indexed so that no decision has to visit all of them: by step, with the active ones, counts, and the
lowest item without a step run. Everything is derived from objects, so a new leader rebuilds the same. Results that
follow from finished steps are cached here until one of their step runs changes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api.pipelines.graphs import Graph
from rota.controllers.pipelines.states import BLOCKED, Phase, StepKey, StepState


class Tally:
    """The step runs of one step."""

    __slots__ = ("_lowest", "blocked", "going", "nodes", "phases", "states")

    def __init__(self) -> None:
        #: By item; None for a step without items.
        self.states: Final[dict[int | None, StepState]] = {}
        #: Those that are not over.
        self.going: Final[set[int | None]] = set()
        self.phases: Final[Counter[Phase]] = Counter()
        #: How many were skipped because of the steps they wait for.
        self.blocked = 0
        #: Nodes of the step runs, with counts.
        self.nodes: Final[Counter[str]] = Counter()
        self._lowest = 0

    @property
    def lowest(self) -> int:
        """The lowest item without a step run."""
        while self._lowest in self.states:
            self._lowest += 1
        return self._lowest

    def put(self, index: int | None, state: StepState) -> None:
        """A step run was added or changed."""
        lowest = self._lowest
        self.drop(index)
        self.states[index] = state
        self._lowest = lowest
        self.phases[state.phase] += 1
        self.blocked += state.reason == BLOCKED
        if state.node:
            self.nodes[state.node] += 1
        if not state.phase.over:
            self.going.add(index)

    def drop(self, index: int | None) -> StepState | None:
        """A step run is gone; returns its state."""
        state = self.states.pop(index, None)
        if state is None:
            return None
        self.phases[state.phase] -= 1
        self.blocked -= state.reason == BLOCKED
        if state.node:
            self.nodes[state.node] -= 1
        self.going.discard(index)
        if index is not None:
            self._lowest = min(self._lowest, index)
        return state


class Progress(Mapping[StepKey, StepState]):
    """The step runs of one run by key, and by step."""

    def __init__(self, states: Mapping[StepKey, StepState] | None = None) -> None:
        self._tallies: Final[dict[str, Tally]] = {}
        #: Cached results of finished steps, by a key of the caller.
        self.remembered: Final[dict[tuple[str, ...], Any]] = {}
        for key, state in (states or {}).items():
            self.put(key, state)

    def of(self, step: str) -> Tally | None:
        """The tally of a step; None if it has no step runs."""
        return self._tallies.get(step)

    @property
    def going(self) -> int:
        """How many are not over."""
        return sum(len(tally.going) for tally in self._tallies.values())

    @property
    def phases(self) -> Counter[Phase]:
        """The number of step runs per phase."""
        total = Counter[Phase]()
        for tally in self._tallies.values():
            total.update(tally.phases)
        return total

    def put(self, key: StepKey, state: StepState) -> None:
        """A step run was added or changed."""
        tally = self._tallies.get(key[0])
        if tally is None:
            tally = self._tallies[key[0]] = Tally()
        before = tally.states.get(key[1])
        if before is not None and before.phase.over and before != state:
            self.remembered.clear()
        tally.put(key[1], state)

    def drop(self, key: StepKey) -> None:
        """A step run is gone."""
        tally = self._tallies.get(key[0])
        if tally is not None and tally.drop(key[1]) is not None:
            self.remembered.clear()
            if not tally.states:
                del self._tallies[key[0]]

    def __getitem__(self, key: StepKey) -> StepState:
        return self._tallies[key[0]].states[key[1]]

    def __iter__(self) -> Iterator[StepKey]:
        return ((step, index) for step, tally in self._tallies.items() for index in tally.states)

    def __len__(self) -> int:
        return sum(len(tally.states) for tally in self._tallies.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One run."""

    name: str
    namespace: str
    uid: str
    #: The pipeline as of the start of the run.
    spec: Mapping[str, Any]
    parameters: Mapping[str, str]
    steps: Progress
    started_at: float
    #: The dependencies of all steps, from `graphs.graph`: derived from `spec`, and expensive to compute.
    waits: Graph
    #: The Secret with the key by which its steps sign their outputs; empty if none does.
    signing_secret: str = ""
    suspend: bool = False
    cancel: bool = False

    @property
    def main(self) -> Sequence[Mapping[str, Any]]:
        """The main steps."""
        return self.spec.get("steps") or ()

    @property
    def last(self) -> Sequence[Mapping[str, Any]]:
        """The final steps."""
        return self.spec.get("onExit") or ()
