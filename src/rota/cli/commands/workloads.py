"""Reads the workload of a simulation: a trace or another schema, on its own cluster or on another one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rota.cli.commands import cluster_files
from rota.columns.objects import MalformedObjectError
from rota.kit.errors import UserError
from rota.scheduler.recording.trace_lines import NodeSet
from rota.scheduler.snapshot import scenarios
from rota.simulator import clusters, traces
from rota.simulator.loaders import azure as azure_files
from rota.simulator.loaders import csv_mapping
from rota.simulator.loaders import google as google_files
from rota.simulator.traces import Trace


def read(
    *,
    file: Path | None = None,
    csv_file: Path | None = None,
    mapping: str = "",
    azure: Path | None = None,
    google: Path | None = None,
    cluster: Path | None = None,
    nodes: Sequence[str] = (),
    lenient: bool = False,
) -> Trace:
    """The workload with its nodes; raises a UserError if there are none."""
    if csv_file is not None:
        trace = csv_mapping.load(csv_file, csv_mapping.mapping(mapping), lenient=lenient)
    elif azure is not None:
        trace = azure_files.load(azure, lenient=lenient)
    elif google is not None:
        trace = google_files.load(google, lenient=lenient)
    else:
        assert file is not None, "the caller gives one of them"
        trace = cluster_of(file, lenient=lenient)
    if cluster is not None:
        there = cluster_of(cluster, lenient=lenient)
        trace = on(trace, there)
    if nodes:
        trace = replace(trace, nodes=clusters.nodes(nodes), placed=())
    if not trace.nodes and not any(isinstance(line, NodeSet) for line in trace.changes):
        raise UserError(f"{trace.name} has no nodes", "give them with --nodes or --cluster")
    return trace


def cluster_of(file: Path, *, lenient: bool = False) -> Trace:
    """A trace, or the objects of a file as a workload."""
    if cluster_files.is_trace(file):
        return traces.read(file, lenient=lenient)
    try:
        found = scenarios.flattened(cluster_files.objects(file))
        return traces.from_objects(found, file.name.partition(".")[0])
    except MalformedObjectError as error:
        raise UserError(str(error)) from error


def on(trace: Trace, there: Trace) -> Trace:
    """The pods of a trace on another cluster, with the pods that run there."""
    shift = len(trace.templates)
    placed = [replace(each, template=each.template + shift) for each in there.placed]
    return replace(
        trace,
        nodes=there.nodes,
        templates=[*trace.templates, *there.templates],
        placed=placed,
        objects=[*there.objects, *trace.objects],
    )
