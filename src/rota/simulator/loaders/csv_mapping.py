"""Any CSV file as a workload: a mapping says which column has what.

    name=pod_id,at=submitted:ms,end=finished:ms,cpu=cores,memory=mem:Mi,priority=prio

A field is `name`, `at` (arrival), `end` or `duration`, `priority`, or a resource. What follows the colon is the unit:
s, ms, us, min, h or d of a time, the suffix of a quantity of a resource. Without `name` the number of the row is the
name; without an end a pod runs until the end of the simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rota.api import quantities
from rota.kit.errors import UserError
from rota.simulator.loaders.csv_rows import CsvFile, Row
from rota.simulator.traces import FOREVER, BadTrace, Trace, TraceBuilder

_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TIMES: Final = frozenset({"at", "end", "duration"})
_OTHERS: Final = frozenset({"name", "priority"})
_RESOURCES: Final = {"gpu": "nvidia.com/gpu", "gpu-milli": "rota.dev/gpu-milli"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the unit of its values."""

    name: str
    unit: str = ""


def mapping(text: str) -> dict[str, Column]:
    """Read a mapping."""
    found: dict[str, Column] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        field, equals, column = part.partition("=")
        name, _, unit = column.partition(":")
        if not equals or not field or not name:
            raise UserError(f'"{part}" maps nothing', "write field=column or field=column:unit")
        if field in _TIMES and unit and unit not in _SECONDS:
            raise UserError(f'"{unit}" is no unit of time', f"write one of {', '.join(_SECONDS)}")
        found[field] = Column(name, unit)
    if "at" not in found:
        raise UserError("the mapping has no arrival time", "add at=COLUMN")
    if "end" in found and "duration" in found:
        raise UserError("the mapping has an end and a duration", "leave out one of them")
    return found


def load(path: Path, columns: Mapping[str, Column], *, lenient: bool = False) -> Trace:
    """Read the pods of a file; the nodes come from elsewhere."""
    into = TraceBuilder(path.name.partition(".")[0])
    file = CsvFile(path, required=[each.name for each in columns.values()], skipped=into.skipped, lenient=lenient)
    for number, row in enumerate(file.rows()):
        try:
            _pod(row, number, columns, into)
        except BadTrace as fault:
            file.refuse(fault)
    return into.build()


def _pod(row: Row, number: int, columns: Mapping[str, Column], into: TraceBuilder) -> None:
    name = row.text(columns["name"].name) if "name" in columns else f"row-{number}"
    at = _time(row, columns["at"])
    duration = _time(row, columns["duration"], FOREVER) if "duration" in columns else FOREVER
    if "end" in columns and (end := _time(row, columns["end"], FOREVER)) != FOREVER:
        if end < at:
            raise row.fault(columns["end"].name, f"{end:g} s is before the start, at {at:g} s")
        duration = end - at
    priority = row.whole(columns["priority"].name, 0) if "priority" in columns else None
    requests = {
        _RESOURCES.get(field, field): _quantity(row, column)
        for field, column in columns.items()
        if field not in _TIMES and field not in _OTHERS
    }
    if not into.claim_name(name):
        raise row.fault(columns["name"].name if "name" in columns else "name", f'there is another pod "{name}"')
    key = tuple(requests.items()), priority
    template = into.known_template(key)
    if template is None:
        template = into.template(key, manifest(requests, priority))
    into.arrive(name, at, template, duration=duration)


def _time(row: Row, column: Column, default: float | None = None) -> float:
    value = row.number(column.name, default)
    return value if value == FOREVER else value * _SECONDS[column.unit or "s"]


def _quantity(row: Row, column: Column) -> str:
    raw = row.text(column.name, "0") + column.unit
    try:
        amount = quantities.milli(raw)
    except ValueError as error:
        raise row.fault(column.name, f'"{raw}" is no quantity: {error}') from error
    if amount < 0:
        raise row.fault(column.name, f"{raw} is negative")
    return raw


def manifest(requests: Mapping[str, str], priority: int | None = None) -> dict[str, Any]:
    """A pod with these requests."""
    wanted = {name: amount for name, amount in requests.items() if quantities.milli(amount)}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": wanted}}]}
    if priority is not None:
        spec["priority"] = priority
    return {"metadata": {"name": "pod"}, "spec": spec}
