"""Deletion of a definition: its objects first, then itself.

Every definition has a finalizer from its creation. When it is deleted, the CRD controller asks for the next step,
performs it, and asks again with the number of remaining objects. Pure; the caller deletes.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final

from rota.apiserver.crd.definitions import Definition, is_established
from rota.apiserver.crd.names import with_conditions

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


class Step(enum.Enum):
    """What to do about a definition."""

    #: Nothing: it is not being deleted, or other finalizers remain.
    NOTHING = "nothing"
    #: Delete all its objects (their finalizers are respected), then ask again.
    DELETE_OBJECTS = "delete objects"
    #: Remove Rota's finalizer: write the result of `finished`.
    FINISH = "finish"


def next_step(definition: Definition, *, objects_left: int) -> Step:
    """The next step for a definition with this many objects."""
    metadata = definition["metadata"]
    if not metadata.get("deletionTimestamp") or FINALIZER not in (metadata.get("finalizers") or ()):
        return Step.NOTHING
    # a kind that was never served has no objects of its own
    return Step.DELETE_OBJECTS if objects_left and is_established(definition) else Step.FINISH


def terminating(definition: Definition, *, now: float) -> dict[str, Any]:
    """The definition while its objects are being deleted."""
    message = "CustomResource deletion is in progress"
    return _with_condition(definition, "True", "InstanceDeletionInProgress", message, now=now)


def finished(definition: Definition, *, now: float) -> dict[str, Any]:
    """The definition without Rota's finalizer, after its objects are gone."""
    done = _with_condition(definition, "False", "InstanceDeletionCompleted", "removed all instances", now=now)
    metadata: Mapping[str, Any] = done["metadata"]
    kept = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
    return {**done, "metadata": {**metadata, "finalizers": kept}}


def _with_condition(definition: Definition, holds: str, reason: str, message: str, *, now: float) -> dict[str, Any]:
    condition = {"type": "Terminating", "status": holds, "reason": reason, "message": message}
    status = {**(definition.get("status") or {}), "conditions": with_conditions(definition, condition, now=now)}
    return {**definition, "status": status}
