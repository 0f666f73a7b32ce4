"""Objects as a Table: the response to `kubectl get` (`as=Table`).

All columns are always sent; kubectl hides those with a priority unless the output is wide. Each row has its object,
complete or reduced to its metadata, from which kubectl takes namespaces, labels and names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, gotext
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.printing import (
    autoscalers,
    cluster_states,
    custom_objects,
    devices,
    extensions,
    metadata,
    networks,
    nodes,
    pipelines,
    pods,
    rebalancing,
    scheduler_shards,
    security,
    settings,
    storage,
    tuning,
    workloads,
)
from rota.apiserver.printing.columns import Cells, Object, Printer, at, columns, name

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def _name_and_creation(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "metadata", "creationTimestamp") or _ZERO_TIME]


_OTHERS: Final = Printer(
    columns=columns("""
        Name       | string name | The name of the object.
        Created At | date        | When the object was created.
    """),
    cells=_name_and_creation,
)

_PRINTERS: Final[Mapping[GroupResource, Printer]] = {
    **pods.PRINTERS,
    **workloads.PRINTERS,
    **autoscalers.PRINTERS,
    **nodes.PRINTERS,
    **networks.PRINTERS,
    **storage.PRINTERS,
    **settings.PRINTERS,
    **security.PRINTERS,
    **extensions.PRINTERS,
    **devices.PRINTERS,
    **pipelines.PRINTERS,
    **cluster_states.PRINTERS,
    **rebalancing.PRINTERS,
    **scheduler_shards.PRINTERS,
    **tuning.PRINTERS,
}


def table(
    resource: ResourceType,
    objects: Iterable[Mapping[str, Any]],
    *,
    now: float,
    include_object: str = "Metadata",
    list_metadata: Mapping[str, Any] | None = None,
    with_columns: bool = True,
    printer_columns: Sequence[Mapping[str, Any]] | None = None,
    subresource: str = "",
    api_version: str = metadata.V1,
) -> dict[str, Any]:
    """The Table of some objects of one resource, as plain JSON values.

    `include_object` is the request's parameter: Metadata (also if empty), Object or None. `list_metadata` has the
    resourceVersion of the list or of the single object. `with_columns` is false for all but the first event of a
    watch. `printer_columns` are those of a custom kind's version. A `subresource` is shown as its object is, except
    for scale.
    """
    embed = _embedding(include_object, api_version)
    printer = workloads.SCALE if subresource == "scale" else _printer_of(resource, printer_columns)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": dict(list_metadata or {}),
        "columnDefinitions": [column.to_wire() for column in printer.columns] if with_columns else None,
        "rows": [_row(printer, obj, now=now, embed=embed) for obj in objects],
    }


def _printer_of(resource: ResourceType, printer_columns: Sequence[Mapping[str, Any]] | None) -> Printer:
    if resource.custom:
        return custom_objects.printer(printer_columns)
    return _PRINTERS.get(resource.group_resource, _OTHERS)


def _row(printer: Printer, obj: Object, *, now: float, embed: Callable[[Object], Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    if printer.conditions is not None and (conditions := printer.conditions(obj)):
        row["conditions"] = conditions
    row["object"] = embed(obj)
    return row


def _embedding(include_object: str, api_version: str) -> Callable[[Object], Any]:
    match include_object:
        case "Metadata" | "":
            return lambda obj: metadata.partial(obj, api_version=api_version)
        case "Object":
            return lambda obj: obj
        case "None":
            return lambda obj: None
    raise errors.bad_request(f"unrecognized includeObject value: {gotext.quote(include_object)}")
