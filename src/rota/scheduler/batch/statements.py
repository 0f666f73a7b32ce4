"""Statements: operations that take effect in the session at once and are committed or discarded together.

An operation changes the pod's state, its node's resources and the plugins' accounting. A commit sends evictions and
bindings; a pipelined pod keeps its reservation until the end of the session, and nothing is written for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Attempt, Task


class Moves(Protocol):
    """What statements change."""

    def shift(self, task: Task, status: TaskStatus, /) -> None:
        """Give a pod another state."""

    def place(self, task: Task, node: str, status: TaskStatus, /) -> None:
        """Put a pod on a node."""

    def withdraw(self, task: Task, /) -> None:
        """Take a pod off its node again."""

    def release(self, task: Task, /) -> None:
        """Count a pod as leaving."""

    def reinstate(self, task: Task, /) -> None:
        """Count a leaving pod as running again."""

    def send_eviction(self, task: Task, reason: str, /) -> None:
        """Ask for a pod to be evicted."""

    def send_binding(self, task: Task, /) -> None:
        """Ask for a pod to be bound."""

    def committed(self) -> None:
        """Everything that was sent since the last call belongs together."""


class _Kind(Enum):
    EVICT = auto()
    PIPELINE = auto()
    ALLOCATE = auto()


@dataclass(slots=True)
class Operation:
    """One move."""

    kind: _Kind
    task: Task
    node: str
    reason: str
    evicted_others: bool
    #: What was known of an earlier attempt when the move was saved.
    last: Attempt | None = None


class Statement:
    """Moves of one session, in order."""

    __slots__ = ("_session", "operations")

    def __init__(self, session: Moves) -> None:
        self._session = session
        self.operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self.operations)

    def evict(self, task: Task, reason: str) -> None:
        """Evict a pod."""
        self._session.release(task)
        self.operations.append(Operation(_Kind.EVICT, task, task.node, reason, evicted_others=False))

    def pipeline(self, task: Task, node: str, *, evicted: bool) -> None:
        """Reserve future idle resources for a pod."""
        task.evicted_others = evicted
        self._session.place(task, node, TaskStatus.PIPELINED)
        self.operations.append(Operation(_Kind.PIPELINE, task, node, "", evicted))

    def allocate(self, task: Task, node: str) -> None:
        """Allocate idle resources to a pod."""
        self._session.place(task, node, TaskStatus.ALLOCATED)
        self.operations.append(Operation(_Kind.ALLOCATE, task, node, "", evicted_others=False))

    def commit(self) -> None:
        """Send everything out."""
        for operation in self.operations:
            operation.task.last = None
            if operation.kind is _Kind.EVICT:
                self._session.send_eviction(operation.task, operation.reason)
            elif operation.kind is _Kind.ALLOCATE:
                self._session.send_binding(operation.task)
        self.operations = []
        self._session.committed()

    def discard(self) -> None:
        """Undo all operations, the last one first."""
        for operation in reversed(self.operations):
            task = operation.task
            task.last = Attempt(task.node, task.status, task.evicted_others)
            if operation.kind is _Kind.EVICT:
                self._session.reinstate(task)
            else:
                self._session.withdraw(task)
        self.operations = []

    def merge(self, other: "Statement") -> None:
        """Take over another's moves."""
        self.operations += other.operations
        other.operations = []

    def replay(self, operations: Iterable[Operation]) -> None:
        """Repeat saved operations."""
        for operation in operations:
            operation.task.last = operation.last
            if operation.kind is _Kind.EVICT:
                self.evict(operation.task, operation.reason)
            elif operation.kind is _Kind.PIPELINE:
                self.pipeline(operation.task, operation.node, evicted=operation.evicted_others)
            else:
                self.allocate(operation.task, operation.node)


def save(statements: Iterable[Statement]) -> list[Operation]:
    """Copy moves, so that they can be made again after they were taken back."""
    return [
        Operation(each.kind, each.task, each.node, each.reason, each.evicted_others, each.task.last)
        for statement in statements
        for each in statement.operations
    ]
