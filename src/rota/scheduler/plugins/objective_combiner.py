"""ObjectiveCombiner: orders nodes by several objectives instead of by the sum of all scores.

Its arguments name the method and the objectives, which are score plugins of the same profile. Limits and tolerances are
in the units of the objectives. Scores of other plugins break ties, also those of extenders.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np

from rota.columns.arrays import FloatArray, IntArray
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework import objectives
from rota.scheduler.framework.objectives import Objective, Term
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status

Method = Literal["WeightedSum", "EpsilonConstraint", "Lexicographic", "Chebyshev", "ParetoKnee"]

_METHODS: Final[dict[str, Callable[[FloatArray, Sequence[Term]], FloatArray]]] = {
    "WeightedSum": objectives.weighted_sum,
    "EpsilonConstraint": objectives.epsilon_constraint,
    "Lexicographic": objectives.lexicographic,
    "Chebyshev": objectives.chebyshev,
    "ParetoKnee": objectives.pareto_knee,
}
#: Methods with a scalar form.
_OF_ROWS: Final[dict[str, Callable[[Sequence[float], Sequence[Term]], float]]] = {
    "WeightedSum": objectives.one_weighted_sum,
    "Chebyshev": objectives.one_chebyshev,
}
_LOCAL: Final = frozenset({"WeightedSum", "EpsilonConstraint", "Chebyshev"})
#: The order has this many steps between costs 0 and 1, and room for the sum of other scores below each step.
_STEPS: Final = 1_000_000
_OTHERS: Final = 1 << 20
#: No method returns more than this for ten objectives.
_WORST: Final = 16.0


class CombinedObjective(WireStruct, frozen=True):
    """An objective in a combination."""

    plugin: str
    weight: float = 1.0
    #: For EpsilonConstraint: the greatest cost that is wanted.
    limit: float | None = None
    #: For Lexicographic: how much more than the best a node may cost to stay.
    tolerance: float = 0.0


class ObjectiveCombinerArgs(WireStruct, frozen=True):
    """Arguments of ObjectiveCombiner."""

    method: Method
    objectives: tuple[CombinedObjective, ...]

    def faults(self) -> Iterator[Fault]:
        """Combinations that cannot be."""
        if not 1 <= len(self.objectives) <= 10:
            yield Fault("objectives", "name one to ten objectives")
        names = [each.plugin for each in self.objectives]
        for at, each in enumerate(self.objectives):
            if names.index(each.plugin) != at:
                yield Fault(f"objectives[{at}].plugin", f'"{each.plugin}" is named twice; keep one of them')
            if not each.weight > 0:
                yield Fault(f"objectives[{at}].weight", "must be positive; leave the objective out instead")
            if each.limit is not None and self.method != "EpsilonConstraint":
                yield Fault(f"objectives[{at}].limit", "is for the method EpsilonConstraint; remove it")
            if each.tolerance and self.method != "Lexicographic":
                yield Fault(f"objectives[{at}].tolerance", "is for the method Lexicographic; remove it")
            if each.tolerance < 0:
                yield Fault(f"objectives[{at}].tolerance", "must not be negative")

    def profile_faults(self, scoring: Collection[str]) -> Iterator[Fault]:
        """Objectives that the profile does not enable."""
        for at, each in enumerate(self.objectives):
            if each.plugin not in scoring:
                yield Fault(f"objectives[{at}].plugin", f'"{each.plugin}" must be enabled at score or multiPoint')


class ObjectiveCombiner:
    """Combine the objectives of the profile."""

    name: ClassVar[str] = "ObjectiveCombiner"
    Args = ObjectiveCombinerArgs
    watches: ClassVar[ChangeScope] = ChangeScope(0)

    def __init__(self, args: ObjectiveCombinerArgs, handle: Handle) -> None:
        self.args = args
        #: The names of the plugins, in order.
        self.objectives = tuple(each.plugin for each in args.objectives)
        self._handle = handle
        #: Whether the order of a node depends on its own costs only.
        self.local = args.method in _LOCAL
        #: Whether `combined_row` is there.
        self.has_rows = args.method in _OF_ROWS

    def signature(self, pod: PodInfo) -> Hashable:
        """Nothing of the pod."""
        return ()

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: Any) -> Status | None:
        """Nothing to prepare; the combination happens after all scores."""
        return None

    @cached_property
    def plugins(self) -> list[Objective]:
        """The objectives, in order."""
        known: Any = self._handle
        return [known.plugins[name] for name in self.objectives]

    def normalized(self, costs: FloatArray) -> FloatArray:
        """Costs from 0 to 1 by the bounds of the objectives."""
        least, width = self._bounds
        return np.asarray(np.minimum(np.maximum((costs - least) / width, 0.0), 1.0))

    def combined(self, costs: FloatArray, others: IntArray) -> IntArray:
        """The order of nodes, the highest first; costs of shape (n, objectives), other scores of shape (n,)."""
        value = _METHODS[self.args.method](self.normalized(costs), self._terms)
        steps = np.rint((_WORST - np.minimum(value, _WORST)) * _STEPS).astype(np.int64)
        return np.asarray(steps * _OTHERS + np.clip(others, 0, _OTHERS - 1))

    def combined_row(self, costs: Sequence[float], others: int) -> int:
        """As `combined`, of one node."""
        normalized = [
            min(max((cost - least) / width, 0.0), 1.0) for cost, (least, width) in zip(costs, self._widths, strict=True)
        ]
        value = _OF_ROWS[self.args.method](normalized, self._terms)
        return round((_WORST - min(value, _WORST)) * _STEPS) * _OTHERS + min(max(others, 0), _OTHERS - 1)

    @cached_property
    def _widths(self) -> list[tuple[float, float]]:
        return [(float(each.least), float(each.greatest - each.least)) for each in self.plugins]

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        least = np.array([each.least for each in self.plugins])
        return least, np.array([each.greatest for each in self.plugins]) - least

    @cached_property
    def _terms(self) -> list[Term]:
        found = []
        for each, plugin in zip(self.args.objectives, self.plugins, strict=True):
            width = plugin.greatest - plugin.least
            limit = None if each.limit is None else (each.limit - plugin.least) / width
            found.append(Term(each.weight, limit, each.tolerance / width))
        return found
