"""resource-strategy-fit: prefer fuller or emptier nodes, resource by resource, and keep scarce resources free."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import CPU, MEMORY
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
WEIGHTS: Final = "volcano.sh/resource-strategy-weight"
LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
MAX_SCORE: Final = 100.0
_TYPES: Final = (LEAST, MOST)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one resource counts."""

    type: str
    weight: int


_DEFAULT: Final = {CPU: Strategy(LEAST, 1), MEMORY: Strategy(LEAST, 1)}


def _fields(value: Any, known: Mapping[str, args.Reader], where: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, each in args.mapping(value).items():
        reader = known.get(str(name))
        if reader is None:
            raise ValueError(f"{where}{name} is not a field; known are {', '.join(sorted(known))}")
        try:
            result[str(name)] = reader(each)
        except ValueError as error:
            raise ValueError(f"{where}{name}: {error}") from None
    return result


def _type(value: Any) -> str:
    if value not in _TYPES:
        raise ValueError(f"expected {LEAST} or {MOST}")
    return str(value)


def _strategies(value: Any) -> dict[str, Strategy]:
    result = {}
    for name, each in args.mapping(value).items():
        if "*" in name and (name == "*" or not name.endswith("*") or name.count("*") > 1):
            raise ValueError(f"{name}: only one asterisk at the end of a name is understood")
        fields = _fields(each, {"type": _type, "weight": args.integer}, f"{name}.")
        weight = fields.get("weight", 1)
        result[str(name)] = Strategy(fields.get("type", LEAST), weight if weight > 0 else 1)
    return result or dict(_DEFAULT)


def _numbers(value: Any) -> dict[str, float]:
    return {str(name): args.number(each) for name, each in args.mapping(value).items()}


_SRA: Final = {"enable": args.boolean, "resources": args.text, "weight": args.integer, "resourceWeight": _numbers}
_PROPORTIONAL: Final = {"enable": args.boolean, "resources": args.text, "resourceProportion": _numbers}


class ResourceStrategyFit(BatchPlugin):
    """Rate and filter by resources."""

    name: ClassVar[str] = "resource-strategy-fit"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "resourceStrategyFitWeight": Argument(args.integer, 10),
        "resources": Argument(_strategies, _DEFAULT),
        "sra": Argument(lambda value: _fields(value, _SRA), {}),
        "proportional": Argument(lambda value: _fields(value, _PROPORTIONAL), {}),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._nodes = session.nodes
        weight: int = arguments["resourceStrategyFitWeight"]
        self._weight: Final = 10 if weight < 0 else weight
        self._strategies: Final[Mapping[str, Strategy]] = arguments["resources"]
        sra, proportional = arguments["sra"], arguments["proportional"]
        self._scarce_weight: Final[int] = sra.get("weight", 0) if sra.get("enable") else 0
        given = sra.get("resourceWeight", {})
        self._scarce: Final = {
            name: 1 if given.get(name, 1) < 0 else int(given.get(name, 1)) for name in _listed(sra.get("resources", ""))
        }
        rates = proportional.get("resourceProportion", {})
        self._reserved: Final = (
            {
                name: (_rate(rates, f"{name}.cpu"), _rate(rates, f"{name}.memory"))
                for name in _listed(proportional.get("resources", ""))
            }
            if proportional.get("enable")
            else None
        )

    def offers(self, method: str) -> bool:
        """Filter only if something is reserved, rate only if something has a weight."""
        if method == "predicate":
            return self._reserved is not None
        if method == "node_order":
            return self._weight > 0 or self._scarce_weight > 0
        return super().offers(method)

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes where what is reserved for idle devices would be used by a pod that asks for none."""
        reserved = self._reserved or {}
        if any(task.request.others.get(name, 0.0) > 0 for name in reserved):
            return None
        nodes, verdicts = self._nodes, Verdicts(len(rows))
        left: BoolArray = np.ones(len(rows), dtype=np.bool_)
        for name, (cpu, memory) in reserved.items():
            index = nodes.dimensions.get(name)
            if index is None:
                continue
            idle = nodes.idle[index]
            short = (nodes.idle[0] - task.request.cpu < idle * cpu) | (
                nodes.idle[1] - task.request.memory < idle * memory * 1000 * 1000
            )
            refused = short & nodes.present[index] & left
            if refused.any():
                verdicts.refuse(refused, Code.UNRESOLVABLE, f"proportional of resource {name} check failed")
                left = left & ~refused
        return verdicts if verdicts.reasons else None

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Add the two ratings up."""
        total = np.zeros(len(rows))
        if self._weight > 0:
            total += self._fit(task, rows)
        if self._scarce_weight > 0:
            total += self._scarcity(task, rows)
        return total

    def _fit(self, task: Task, rows: IndexArray) -> FloatArray:
        nodes, strategies = self._nodes, self._strategies_of(task)
        score, weights = np.zeros(len(rows)), 0
        refused = np.zeros(len(rows), dtype=np.bool_)
        for name in task.request.names():
            strategy = _strategy_for(name, strategies)
            if strategy is None:
                continue
            weights += strategy.weight
            index = nodes.dimensions.get(name)
            if index is None or not strategy.weight:
                continue
            whole = nodes.allocatable[index, rows]
            would = task.request.get(name) + nodes.used[index, rows]
            amount = would if strategy.type == MOST else whole - would
            with np.errstate(divide="ignore", invalid="ignore"):
                score += np.where(whole == 0, 0.0, amount * float(strategy.weight) / whole)
            refused |= (would > whole) & (whole != 0)
        if weights > 0:
            score /= float(weights)
        score *= MAX_SCORE * float(self._weight)
        score[refused] = 0.0
        return score

    def _scarcity(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes higher the fewer scarce resources they have."""
        nodes = self._nodes
        score, total = np.zeros(len(rows)), sum(self._scarce.values())
        for name, weight in self._scarce.items():
            index = nodes.dimensions.get(name)
            if index is not None:
                score += np.where(nodes.allocatable[index, rows] > 0, float(weight), 0.0)
        if total > 0:
            score = 1.0 - score / float(total)
        score *= MAX_SCORE * self._scarce_weight
        for name in task.request.names():
            index = nodes.dimensions.get(name)
            score[nodes.allocatable[index, rows] == 0 if index is not None else slice(None)] = 0.0
        return score

    def _strategies_of(self, task: Task) -> Mapping[str, Strategy]:
        """Give the strategies for a pod; its annotations may replace them: a type, and all the weights."""
        kind, text = task.annotations.get(TYPE), task.annotations.get(WEIGHTS)
        if kind not in _TYPES:
            return self._strategies
        try:
            weights = {str(name): int(weight) for name, weight in json.loads(text).items()} if text else {}
        except (ValueError, AttributeError, TypeError):
            weights = {}
        return {name: Strategy(kind, weight) for name, weight in weights.items()}


def _strategy_for(name: str, strategies: Mapping[str, Strategy]) -> Strategy | None:
    """Give the strategy for a resource; of several patterns, the longest."""
    exact = strategies.get(name)
    if exact is not None:
        return exact
    fitting = [each for each in strategies if each.endswith("*") and name.startswith(each[:-1]) and len(each) > 1]
    return strategies[max(fitting, key=len)] if fitting else None


def _listed(text: str) -> list[str]:
    return [name for each in text.split(",") if (name := each.strip())]


def _rate(rates: Mapping[str, float], name: str) -> float:
    rate = rates.get(name, 1.0)
    return 1.0 if rate < 0 else rate
