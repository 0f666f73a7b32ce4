"""Errors of patches, one class per response of the API.

PatchError
├── MalformedPatch        400 BadRequest: the patch itself makes no sense
├── InapplicablePatch     422 Invalid: the patch is well formed but does not fit this object
├── PatchTooLarge         413 RequestEntityTooLarge: a limit against abuse was hit
└── ApplyConflict         409 Conflict: other managers own what the configuration sets

Messages are those that Kubernetes clients know, because people search for them. The API server adds the object's
name and turns each class into a Status; nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PatchError(Exception):
    """The patch cannot be applied; change the patch and send it again."""

    @property
    def message(self) -> str:
        """The text for the user."""
        return str(self)


class MalformedPatch(PatchError):
    """The patch is not a valid patch document for this kind."""


class InapplicablePatch(PatchError):
    """The patch is valid but this object does not have what it refers to."""


class PatchTestFailed(InapplicablePatch):
    """A `test` operation of a JSON patch finds another value."""


class PatchTooLarge(PatchError):
    """The patch exceeds a limit; split it into smaller ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One field that another manager owns with a different value."""

    #: The owner as people read it: `"kubectl" using apps/v1`.
    manager: str
    #: The field as people read it: `.spec.replicas`.
    field: str

    #: The `reason` of the cause on the wire.
    REASON = "FieldManagerConflict"

    @property
    def message(self) -> str:
        """The `message` of the cause on the wire."""
        return f"conflict with {self.manager}"


class ApplyConflict(PatchError):
    """Other managers own fields of the applied configuration; force the apply or drop the fields."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(_summary(self.conflicts))


def _summary(conflicts: tuple[Conflict, ...]) -> str:
    """One line for one conflict; for more, a heading for each manager with its fields below it."""
    if len(conflicts) == 1:
        [only] = conflicts
        return f"Apply failed with 1 conflict: {only.message}: {only.field}"
    lines = []
    for manager, owned in groupby(conflicts, key=lambda conflict: conflict.manager):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {conflict.field}" for conflict in owned)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def refuses_deep_nesting(function: Callable[P, T]) -> Callable[P, T]:
    """Answer a value that is nested deeper than we can walk with MalformedPatch; no real object comes near that."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            raise MalformedPatch("exceeded max depth") from error

    return guarded
