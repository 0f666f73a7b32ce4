"""Google's public cluster trace of 2011: the folders `machine_events` and `task_events`, whose files have no head.

Amounts there are parts of the largest machine; it counts as 64 cores and 256 GiB here. A task becomes a pod: it arrives
when it is submitted and runs for as long as it did then, from its start to its end. A task that is submitted again is
another pod. Events before the beginning of the trace are at its beginning.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rota.kit.errors import UserError
from rota.scheduler.recording import trace_lines
from rota.simulator.loaders import csv_mapping
from rota.simulator.loaders.csv_rows import CsvFile, Row
from rota.simulator.traces import FOREVER, BadTrace, Trace, TraceBuilder

MACHINE_COLUMNS: Final = ("time", "machine", "event", "platform", "cpus", "memory")
TASK_COLUMNS: Final = (
    "time", "missing", "job", "task", "machine", "event", "user", "class", "priority", "cpu", "memory", "disk",
    "different",
)  # fmt: skip
CORES: Final = 64
MEMORY_GIB: Final = 256
_ADD, _REMOVE, _UPDATE = 0, 1, 2
_SUBMIT, _SCHEDULE = 0, 1
_ENDS: Final = frozenset({2, 3, 4, 5, 6})
_MICROSECOND: Final = 1e-6
#: A time that means: after the end of the trace.
_NEVER: Final = float(2**63 - 1)


def load(folder: Path, *, lenient: bool = False) -> Trace:
    """Read the machines and tasks of a folder."""
    into = TraceBuilder(folder.name or "google")
    for file, row in _rows(folder / "machine_events", MACHINE_COLUMNS, into, lenient=lenient):
        try:
            _machine(row, into)
        except BadTrace as fault:
            file.refuse(fault)
    tasks = _Tasks(into)
    for file, row in _rows(folder / "task_events", TASK_COLUMNS, into, lenient=lenient):
        try:
            tasks.take(row)
        except BadTrace as fault:
            file.refuse(fault)
    tasks.finish()
    return into.build()


def _rows(
    folder: Path, columns: tuple[str, ...], into: TraceBuilder, *, lenient: bool
) -> Iterator[tuple[CsvFile, Row]]:
    paths = sorted(folder.glob("part-*.csv*"))
    if not paths:
        raise UserError(f"{folder} has no part-*.csv", "give the folder with machine_events and task_events")
    for path in paths:
        file = CsvFile(path, required=(), skipped=into.skipped, lenient=lenient, columns=columns)
        for row in file.rows():
            yield file, row


def _seconds(row: Row) -> float:
    value = row.number("time")
    return FOREVER if value >= _NEVER else value * _MICROSECOND


def _machine(row: Row, into: TraceBuilder) -> None:
    name, event, at = f"machine-{row.text('machine')}", row.whole("event"), _seconds(row)
    if event == _REMOVE:
        into.changes.append(trace_lines.NodeGone(at=at, name=name))
        return
    if event not in {_ADD, _UPDATE}:
        raise row.fault("event", f"{event} is no event of a machine")
    node = _node(name, row.number("cpus", 0.0), row.number("memory", 0.0))
    if at == 0 and event == _ADD:
        if name in into.nodes:
            raise row.fault("machine", f'there is another node "{name}"')
        into.nodes[name] = node
    else:
        into.changes.append(trace_lines.NodeSet(at=at, node=node))


def _node(name: str, cpus: float, memory: float) -> dict[str, Any]:
    amounts = {
        "cpu": f"{round(cpus * CORES * 1000)}m",
        "memory": f"{round(memory * MEMORY_GIB * 1024)}Mi",
        "pods": "1000",
    }
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {"allocatable": amounts}}


class _Tasks:
    """Tasks that are submitted and have not ended yet."""

    def __init__(self, into: TraceBuilder) -> None:
        self._into: Final = into
        #: By job and task: the submission's number, its time, its start, and its template.
        self._open: Final[dict[tuple[str, str], tuple[str, float, float | None, int]]] = {}
        self._times: Final[dict[tuple[str, str], int]] = {}

    def take(self, row: Row) -> None:
        """Take over an event."""
        key = row.text("job"), row.text("task")
        event, at = row.whole("event"), _seconds(row)
        if event == _SUBMIT:
            self._close(key, FOREVER)
            number = self._times[key] = self._times.get(key, 0) + 1
            name = f"{key[0]}-{key[1]}" if number == 1 else f"{key[0]}-{key[1]}-{number}"
            self._open[key] = name, at, None, self._template(row)
        elif event == _SCHEDULE and key in self._open:
            name, arrived, _, template = self._open[key]
            self._open[key] = name, arrived, at, template
        elif event in _ENDS and key in self._open:
            started = self._open[key][2]
            if started is not None and at < started:
                raise row.fault("time", f"the task ends at {at:g} s, before its start at {started:g} s")
            self._close(key, at)

    def finish(self) -> None:
        """The end of the trace: tasks that run then run on."""
        for key in list(self._open):
            self._close(key, FOREVER)

    def _close(self, key: tuple[str, str], at: float) -> None:
        found = self._open.pop(key, None)
        if found is None:
            return
        name, arrived, started, template = found
        duration = FOREVER if at == FOREVER else at - (arrived if started is None else started)
        self._into.arrive(name, arrived, template, duration=duration)

    def _template(self, row: Row) -> int:
        cpu = round(row.number("cpu", 0.0) * CORES * 1000)
        memory = round(row.number("memory", 0.0) * MEMORY_GIB * 1024)
        priority = row.whole("priority", 0)
        key = cpu, memory, priority
        known = self._into.known_template(key)
        if known is not None:
            return known
        return self._into.template(key, csv_mapping.manifest({"cpu": f"{cpu}m", "memory": f"{memory}Mi"}, priority))
