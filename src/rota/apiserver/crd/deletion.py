"""How a definition goes: its objects first, then itself.

Every definition carries a finalizer from its creation. When it is deleted, whoever looks after definitions asks for the
next step, takes it, and asks again with the number of objects that are left. Pure; deleting is left to the caller.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final

from rota.apiserver.crd.definitions import Definition, is_established
from rota.apiserver.crd.names import with_conditions

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


class Step(enum.Enum):
    """What is to be done about a definition."""

    #: It stays, or others still hold on to it.
    NOTHING = "nothing"
    #: Delete all its objects (their own finalizers are respected), then ask again.
    DELETE_OBJECTS = "delete objects"
    #: Remove our finalizer: write what `finished` gives.
    FINISH = "finish"


def next_step(definition: Definition, *, objects_left: int) -> Step:
    """What comes next for a definition of whose kind this many objects exist."""
    metadata = definition["metadata"]
    if not metadata.get("deletionTimestamp") or FINALIZER not in (metadata.get("finalizers") or ()):
        return Step.NOTHING
    # of a kind that was never served there are no objects that are its own
    return Step.DELETE_OBJECTS if objects_left and is_established(definition) else Step.FINISH


def terminating(definition: Definition, *, now: float) -> dict[str, Any]:
    """The definition while its objects are being deleted."""
    message = "CustomResource deletion is in progress"
    return _with_condition(definition, "True", "InstanceDeletionInProgress", message, now=now)


def finished(definition: Definition, *, now: float) -> dict[str, Any]:
    """The definition without our finalizer, after its objects have gone."""
    done = _with_condition(definition, "False", "InstanceDeletionCompleted", "removed all instances", now=now)
    metadata: Mapping[str, Any] = done["metadata"]
    kept = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
    return {**done, "metadata": {**metadata, "finalizers": kept}}


def _with_condition(definition: Definition, holds: str, reason: str, message: str, *, now: float) -> dict[str, Any]:
    condition = {"type": "Terminating", "status": holds, "reason": reason, "message": message}
    status = {**(definition.get("status") or {}), "conditions": with_conditions(definition, condition, now=now)}
    return {**definition, "status": status}
