"""Dynamic resource allocation: device classes, claims, slices, taints, and pool status requests."""

from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import (
    NONE,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    items,
    name,
    terminating,
)
from rota.apiserver.printing.settings import NAME_AND_AGE


def _claim(obj: Object, now: float) -> Cells:
    states = ["deleted"] if terminating(obj) else []
    if at(obj, "status", "allocation") is not None:
        states.append("allocated")
        if items(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return [name(obj), ",".join(states), age(obj, now)]


def _slice(obj: Object, now: float) -> Cells:
    paths = (("nodeName",), ("driver",), ("pool", "name"))
    return [name(obj), *(at(obj, "spec", *path) or "" for path in paths), age(obj, now)]


def _taint(obj: Object, now: float) -> Cells:
    added = at(obj, "spec", "taint", "timeAdded")
    values = (at(obj, "spec", "taint", key) or "" for key in ("key", "value", "effect"))
    return [name(obj), *values, durations.since(added, now) if added else "", age(obj, now)]


def _pool_status(obj: Object, now: float) -> Cells:
    pools = items(obj, "status", "pools")
    wanted = at(obj, "status", "poolCount") or 0
    outcome = _outcome(obj)
    word, completed = (outcome.get("type"), outcome.get("lastTransitionTime")) if outcome else ("Pending", None)
    counts = ["-"] * (len(_POOL_COUNTS) + 1)
    if at(obj, "status") is not None and word != "Failed":
        counts = [str(sum(pool.get(key) or 0 for pool in pools)) for key in _POOL_COUNTS]
        counts.append(str(sum(pool.get("validationError") is not None for pool in pools)))
    if word != "Complete":
        seen = NONE
    else:
        seen = durations.since(completed, now)
        if wanted > len(pools):
            word = f"Complete ({len(pools)}/{wanted} pools)"
    return [name(obj), at(obj, "spec", "driver") or "", *counts, wanted, word, seen]


def _outcome(obj: Object) -> dict[str, Any] | None:
    """The condition that has the result of the request, if it has ended."""
    found = (
        one
        for one in items(obj, "status", "conditions")
        if one.get("type") in {"Complete", "Failed"} and one.get("status") == "True"
    )
    return next(found, None)


_POOL_COUNTS: Final = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
_GROUP: Final = "resource.k8s.io"

PRINTERS: Final[Printers] = {
    GroupResource(_GROUP, "deviceclasses"): NAME_AND_AGE,
    GroupResource(_GROUP, "resourceclaimtemplates"): NAME_AND_AGE,
    GroupResource(_GROUP, "resourceclaims"): Printer(
        columns=columns("""
            Name  | string name | The name of the claim.
            State | string      | Whether devices are allocated to it, and reserved for pods.
            Age   | string      | How long the claim has existed.
        """),
        cells=_claim,
    ),
    GroupResource(_GROUP, "resourceslices"): Printer(
        columns=columns("""
            Name   | string name | The name of the slice.
            Node   | string      | The node that has the devices.
            Driver | string      | The driver of the devices.
            Pool   | string      | The pool that the slice is a part of.
            Age    | string      | How long the slice has existed.
        """),
        cells=_slice,
    ),
    GroupResource(_GROUP, "devicetaintrules"): Printer(
        columns=columns("""
            Name      | string name | The name of the rule.
            Key       | string      | The key of the taint.
            Value     | string      | The value of the taint.
            Effect    | string      | What the taint does.
            TimeAdded | string      | How long ago the taint was set.
            Age       | string      | How long the rule has existed.
        """),
        cells=_taint,
    ),
    GroupResource(_GROUP, "resourcepoolstatusrequests"): Printer(
        columns=columns("""
            Name        | string name | The name of the request.
            Driver      | string      | The driver whose pools are asked about.
            Total       | string      | How many devices the pools have.
            Available   | string      | How many of them are free.
            Allocated   | string      | How many of them are in use.
            Unavailable | string      | How many of them cannot be used.
            Errors      | string      | How many pools are faulty.
            Pools       | integer     | How many pools there are.
            Status      | string      | Whether the request has been answered.
            Completed   | string      | How long ago it was answered.
        """),
        cells=_pool_status,
    ),
}
