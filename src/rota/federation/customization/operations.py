"""The questions about an object of some kind, with the names that scripts and webhooks know them by."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

Object: TypeAlias = Mapping[str, Any]


class Operation(enum.Enum):
    """What is asked; the values are those of webhook rules."""

    REPLICAS = "InterpretReplica"
    COMPONENTS = "InterpretComponent"
    REVISION = "ReviseReplica"
    RETENTION = "Retain"
    AGGREGATION = "AggregateStatus"
    DEPENDENCIES = "InterpretDependency"
    STATUS = "InterpretStatus"
    HEALTH = "InterpretHealth"


#: By operation: the member of a customization's rules, the Lua function, and how many values it returns.
SCRIPTS: Final[Mapping[Operation, tuple[str, str, int]]] = {
    Operation.REPLICAS: ("replicaResource", "GetReplicas", 2),
    Operation.COMPONENTS: ("componentResource", "GetComponents", 1),
    Operation.REVISION: ("replicaRevision", "ReviseReplica", 1),
    Operation.RETENTION: ("retention", "Retain", 1),
    Operation.AGGREGATION: ("statusAggregation", "AggregateStatus", 1),
    Operation.DEPENDENCIES: ("dependencyInterpretation", "GetDependencies", 1),
    Operation.STATUS: ("statusReflection", "ReflectStatus", 1),
    Operation.HEALTH: ("healthInterpretation", "InterpretHealth", 1),
}


class CannotInterpret(ValueError):
    """A rule for the object exists and failed; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about one object."""

    operation: Operation
    object: Object
    #: For RETENTION: the member's object.
    observed: Object | None = None
    #: For REVISION: the number of replicas.
    replicas: int = 0
    #: For AGGREGATION: what members report.
    items: Sequence[Object] = field(default_factory=tuple)

    @property
    def kind(self) -> tuple[str, str]:
        """The apiVersion and kind of the object."""
        return self.object.get("apiVersion") or "", self.object.get("kind") or ""

    @property
    def where(self) -> str:
        """The object, for messages."""
        metadata: Object = self.object.get("metadata") or {}
        place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        return f"{self.operation.value} of {self.kind[1]} {place}"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer. By operation: (replicas, requirements), components, an object, dependencies, a status, a bool."""

    value: Any


class Source(Protocol):
    """Rules for some kinds and operations."""

    async def ask(self, question: Question, /) -> Found | None:
        """The answer; None if there is no rule for this question. CannotInterpret if there is one and it fails."""
        ...


def as_requirements(value: Any, question: Question) -> dict[str, Any] | None:
    """Requirements of a replica as a rule gave them."""
    if value is None or isinstance(value, dict):
        return value or None
    raise CannotInterpret(f"{question.where}: the requirements are {type(value).__name__}, not a map")


def as_objects(value: Any, question: Question) -> list[dict[str, Any]]:
    """A list of maps as a rule gave it."""
    if value in (None, {}):
        return []
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return value
    raise CannotInterpret(f"{question.where}: the answer is no list of maps")


def as_object(value: Any, question: Question) -> dict[str, Any]:
    """A map as a rule gave it."""
    if isinstance(value, dict):
        return value
    raise CannotInterpret(f"{question.where}: the answer is {type(value).__name__}, not a map")
