"""Levels: which formats a release reads and writes, and which releases work together.

A cluster has a level, which is kept in its store. A release declares the levels at which it can work, and writes the
formats of the cluster's level only. So the members of a cluster can be upgraded one after the other and also go back.
The level is raised when every master speaks the new one; from then on, masters of the older release are refused.

| level | what is new |
| --- | --- |
| 1 | releases without levels: they declare nothing |
| 2 | the record of the store's role has the level, in a form that level 1 refuses, and the store's identity |

A change of a format that older releases cannot read needs a new level: raise `OWN`, add a row here, and write the new
format only where `Levels` of the cluster say so. `FORMATS` is what this release writes at its newest level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from rota.kit import errors

#: The annotation of a Node, and of a master's Lease, with the levels of its release.
ANNOTATION: Final = "rota.dev/levels"
#: The level of clusters and releases that declare none.
FIRST: Final = 1
#: How many levels a worker may be older or newer than the masters.
_WORKER_SKEW: Final = 1


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels at which a release can work."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest}-{self.newest}"

    @classmethod
    def read(cls, text: str) -> Self:
        """What a release declared; a release that declared nothing has the first level only."""
        oldest, _, newest = text.partition("-")
        if not (oldest.isdecimal() and newest.isdecimal()):
            return cls(FIRST, FIRST)
        return cls(int(oldest), int(newest))


def declared(annotations: Mapping[str, str]) -> Levels:
    """The levels of a member by the annotations of its Node or Lease."""
    return Levels.read(annotations.get(ANNOTATION) or "")


#: A release that declares nothing.
UNDECLARED: Final = Levels(FIRST, FIRST)
#: This release: level N, and N-1 until the cluster's level is raised.
OWN: Final = Levels(1, 2)

#: The version of each format that this release writes at its newest level; a test compares them with the code.
FORMATS: Final[Mapping[str, int]] = {
    "backup": 1,
    "backup log": 1,
    "SQLite schema": 1,
    "PostgreSQL schema": 1,
    "etcd keys": 1,
    "record of the store's role": 2,
}


def master_fault(cluster: int, own: Levels = OWN) -> errors.UserError | None:
    """Why a master of a release must not work on a cluster of a level."""
    if cluster > own.newest:
        return errors.UserError(
            f"the cluster has level {cluster}, and this release knows levels up to {own.newest}",
            f"use a release of level {cluster}; to go back, restore a backup from before the level was raised",
        )
    if cluster < own.oldest:
        return errors.UserError(
            f"the cluster has level {cluster}, and this release needs level {own.oldest} or more",
            f"upgrade to a release of level {cluster + 1} first, and raise the level there: rota level raise",
        )
    return None


def worker_fault(masters: Levels, own: Levels = OWN) -> errors.UserError | None:
    """Why a worker of a release must not work with a master of another."""
    if own.newest > masters.newest + _WORKER_SKEW:
        return errors.UserError(
            f"this worker has level {own.newest} and a master has level {masters.newest}: at most one apart is allowed",
            "upgrade the masters first",
        )
    if own.newest < masters.newest - _WORKER_SKEW:
        return errors.UserError(
            f"this worker has level {own.newest} and a master has level {masters.newest}: at most one apart is allowed",
            f"install a release of level {masters.newest - _WORKER_SKEW} or more for this worker",
        )
    return None


def target(cluster: int, masters: Mapping[str, Levels], workers: Mapping[str, Levels], own: Levels = OWN) -> int:
    """The level to which a cluster can be raised now; UserError if a member is in the way.

    `masters` and `workers` are the running ones by name. Without a step up, the level of the cluster is returned.
    """
    if cluster >= own.newest:
        return cluster
    wanted = cluster + 1
    old = sorted(name for name, levels in masters.items() if levels.newest < wanted)
    if old:
        raise errors.UserError(
            f"the level stays {cluster}: {', '.join(old)} does not know level {wanted}",
            "upgrade that master, or end it",
        )
    behind = sorted(name for name, levels in workers.items() if levels.newest < wanted - _WORKER_SKEW)
    if behind:
        raise errors.UserError(
            f"the level stays {cluster}: the worker {', '.join(behind)} is more than one level behind {wanted}",
            "upgrade that worker, or delete its node",
        )
    return wanted
