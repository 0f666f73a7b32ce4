"""Azure's public traces of virtual machines: `vmtable.csv` of the data sets of 2017 and 2019, which has no head.

A machine becomes a pod: it arrives when it was created and runs until it was deleted. The largest buckets (`>24` cores,
`>64` GiB) count as their lower bound.
"""

from pathlib import Path
from typing import Final

from rota.simulator.loaders import csv_mapping
from rota.simulator.loaders.csv_rows import CsvFile, Row
from rota.simulator.traces import FOREVER, BadTrace, Trace, TraceBuilder

COLUMNS: Final = (
    "vmid", "subscriptionid", "deploymentid", "vmcreated", "vmdeleted", "maxcpu", "avgcpu", "p95maxcpu", "vmcategory",
    "vmcorecount", "vmmemory",
)  # fmt: skip


def load(path: Path, *, lenient: bool = False) -> Trace:
    """Read the machines; the nodes come from elsewhere."""
    into = TraceBuilder(path.name.partition(".")[0])
    file = CsvFile(path, required=(), skipped=into.skipped, lenient=lenient, columns=COLUMNS)
    for row in file.rows():
        try:
            _machine(row, into)
        except BadTrace as fault:
            file.refuse(fault)
    return into.build()


def _machine(row: Row, into: TraceBuilder) -> None:
    name = row.text("vmid")
    begins, ends = row.number("vmcreated"), row.number("vmdeleted", FOREVER)
    if ends < begins:
        raise row.fault("vmdeleted", f"{ends:g} is before the start, at {begins:g}")
    cores, memory = _bucket(row, "vmcorecount"), _bucket(row, "vmmemory")
    if not into.claim_name(name):
        raise row.fault("vmid", f'there is another machine "{name}"')
    key = cores, memory
    template = into.known_template(key)
    if template is None:
        template = into.template(key, csv_mapping.manifest({"cpu": f"{cores:g}", "memory": f"{memory:g}Gi"}))
    into.arrive(name, begins, template, duration=ends - begins)


def _bucket(row: Row, field: str) -> float:
    raw = row.text(field).removeprefix(">")
    try:
        value = float(raw)
    except ValueError:
        raise row.fault(field, f'"{raw}" is no number') from None
    if not 0 <= value < FOREVER:
        raise row.fault(field, f"{raw} is negative" if value < 0 else f'"{raw}" is no number')
    return value
