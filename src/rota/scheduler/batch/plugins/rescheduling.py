"""rescheduling: names pods on overused nodes for the action shuffle, while other nodes have little to do.

The strategy lowNodeUtilization: a node is low if its measured usage is below all `thresholds`, and high if it is above
one of `targetThresholds` (percentages of cpu, memory and pods). Pods leave high nodes, the most used node first, those
of low priority first and pods without requests before others, until the node is no longer high or the low nodes have
no room below their targets. A leaving pod takes away its request.

The strategies run once per `interval`. Without fresh figures a node is neither low nor high. Pods that may not be
preempted, and pods of the system, stay.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import FloatArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import CPU, MEMORY, PODS
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.plugins import conformance
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task

STRATEGY: Final = "lowNodeUtilization"
_RESOURCES: Final = (CPU, MEMORY, PODS)
_PARAMETERS: Final = ("thresholds", "targetThresholds")
_DEFAULT: Final = {"thresholds": dict.fromkeys(_RESOURCES, 20.0), "targetThresholds": dict.fromkeys(_RESOURCES, 80.0)}


def strategies(value: Any) -> tuple[Mapping[str, Mapping[str, float]], ...]:
    """Read strategies with their thresholds; a resource that is not named does not count."""
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of strategies")
    return tuple(_strategy(one, f"[{number}]") for number, one in enumerate(value))


def _strategy(value: Any, place: str) -> Mapping[str, Mapping[str, float]]:
    given = args.mapping(value)
    for name in given:
        if name not in ("name", "params"):
            raise ValueError(f"{place}.{name} is not a field; known are name, params")
    if given.get("name") != STRATEGY:
        raise ValueError(f'{place}.name: there is no strategy "{given.get("name")}"; known is {STRATEGY}')
    if given.get("params") is None:
        return _DEFAULT
    params = args.mapping(given["params"])
    for name in params:
        if name not in _PARAMETERS:
            raise ValueError(f"{place}.params.{name} is not a parameter; known are {', '.join(_PARAMETERS)}")
    found = {name: _percentages(params.get(name, _DEFAULT[name]), f"{place}.params.{name}") for name in _PARAMETERS}
    for resource, low in found["thresholds"].items():
        if low > found["targetThresholds"].get(resource, 100.0):
            raise ValueError(f"{place}.params.thresholds.{resource}: must not be above the target")
    return found


def _percentages(value: Any, place: str) -> dict[str, float]:
    found = {}
    for resource, percent in args.mapping(value).items():
        if resource not in _RESOURCES:
            raise ValueError(f"{place}.{resource} is not known; known are {', '.join(_RESOURCES)}")
        found[resource] = args.number(percent)
        if not 0 <= found[resource] <= 100:
            raise ValueError(f"{place}.{resource}: expected a percentage from 0 to 100")
    return found


def names(value: Any) -> frozenset[str]:
    """Read a list of names."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("expected a list of names")
    return frozenset(value)


def labels(value: Any) -> dict[str, str]:
    """Read labels that a pod must have."""
    given = args.mapping(value)
    if not all(isinstance(text, str) for text in given.values()):
        raise ValueError("expected labels with text values")
    return given


class Rescheduling(BatchPlugin):
    """Name victims by measured usage."""

    name: ClassVar[str] = "rescheduling"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "interval": Argument(args.seconds, 300.0),
        "strategies": Argument(strategies, (_DEFAULT,)),
        "queueSelector": Argument(names, frozenset()),
        "labelSelector": Argument(labels, {}),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session: Final = session
        self._interval: Final[float] = arguments["interval"]
        self._strategies: Final = arguments["strategies"]
        self._queues: Final[frozenset[str]] = arguments["queueSelector"]
        self._labels: Final[Mapping[str, str]] = arguments["labelSelector"]

    def victim_tasks(self, running: list[Task]) -> list[Task]:
        """Name victims, if the interval is over."""
        session = self._session
        if not session.is_due(self.name, self._interval):
            return []
        movable = [task for task in running if self._movable(task)]
        victims: dict[str, Task] = {}
        for strategy in self._strategies:
            balance = _Balance(session, strategy)
            for task in balance.victims([task for task in movable if task.uid not in victims]):
                victims[task.uid] = task
        return list(victims.values())

    def _movable(self, task: Task) -> bool:
        queue = self._session.jobs[task.job].queue
        return (
            task.preemptable
            and not conformance.protected(task)
            and (not self._queues or queue in self._queues)
            and all(task.labels.get(name) == text for name, text in self._labels.items())
        )


class _Balance:
    """The usage of nodes, as pods leave."""

    def __init__(self, session: Session, strategy: Mapping[str, Mapping[str, float]]) -> None:
        nodes = session.nodes
        self._rows: Final = nodes.rows
        shape = len(_RESOURCES), len(nodes)
        self._whole: Final[FloatArray] = np.zeros(shape)
        self._used: Final[FloatArray] = np.zeros(shape)
        known = np.zeros(len(nodes), dtype=np.bool_)
        for index, resource in enumerate(_RESOURCES):
            column = nodes.column(resource)
            self._whole[index] = 0.0 if column is None else column
        for name, used in session.state.usage.items():
            row = nodes.rows.get(name)
            if row is not None and used.fresh(session.now):
                known[row] = True
                self._used[:, row] = used.cpu, used.memory, session.cluster.pod_count[row]
        self._targets: Final = self._limits(strategy["targetThresholds"])
        below = self._used < self._limits(strategy["thresholds"])
        counted = np.array([resource in strategy["thresholds"] for resource in _RESOURCES])
        unschedulable = np.array(
            [node is None or node.unschedulable for node in session.cluster.nodes[: len(nodes)]], dtype=np.bool_
        )
        low = known & below[counted].all(axis=0) & ~unschedulable
        self._high: Final = np.flatnonzero(known & (self._used > self._targets).any(axis=0))
        #: What the low nodes may take up together.
        self._room: Final[FloatArray] = (self._targets - self._used)[:, low].sum(axis=1)
        self._any_low: Final = bool(low.any())

    def _limits(self, percentages: Mapping[str, float]) -> FloatArray:
        parts = np.array([percentages.get(resource, 100.0) / 100 for resource in _RESOURCES])
        return np.asarray(self._whole * parts[:, np.newaxis])

    def victims(self, movable: list[Task]) -> list[Task]:
        """Choose pods, node by node."""
        if not self._any_low:
            return []
        by_row: dict[int, list[Task]] = {}
        for task in movable:
            if task.node in self._rows:
                by_row.setdefault(self._rows[task.node], []).append(task)
        with np.errstate(divide="ignore", invalid="ignore"):
            load = np.nan_to_num(self._used / self._whole, posinf=0.0).sum(axis=0)
        chosen = []
        for row in sorted(self._high.tolist(), key=lambda row: (-load[row], row)):
            for task in sorted(by_row.get(row, ()), key=lambda one: (one.priority, not one.best_effort, one.key)):
                if not (self._used[:, row] > self._targets[:, row]).any():
                    break
                taken = np.array([task.request.cpu, task.request.memory, 1.0])
                if (taken > self._room).any():
                    continue
                self._room[:] -= taken
                self._used[:, row] -= taken
                chosen.append(task)
        return chosen
