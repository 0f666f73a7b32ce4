"""`rota what-if`: reads the cluster and the question, and prints the answer."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import cluster_files, session, workloads
from rota.cli.scheduler_options import SchedulerFiles
from rota.client.verbs import Client
from rota.columns.objects import MalformedObjectError
from rota.kit.errors import UserError
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.configuration_source import frameworks
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.snapshot import cluster_dump, scenarios
from rota.scheduler.snapshot.cluster_dump import Dump
from rota.simulator import cluster_changes, clusters, traces, what_if
from rota.simulator.cluster_changes import Changes
from rota.simulator.traces import Trace
from rota.simulator.what_if import Answer, Cause, Fate, Question

_POOL: Final = re.compile(r"(?P<label>[^=:]+)=(?P<value>[^=:]*):(?P<times>[1-9]\d{0,3})")


def ask(
    *,
    file: Path | None,
    pod_files: Sequence[Path],
    shape: str | None,
    count_of: Path | None,
    most: int,
    drained: Sequence[str],
    add_nodes: Sequence[str],
    pools: Sequence[str],
    reschedule: bool,
    scheduler_files: SchedulerFiles,
    as_json: bool,
    **server: Any,
) -> None:
    """Answer a question about a cluster; only reads it."""
    chosen = scheduler_files.source().load() if scheduler_files else None
    cluster = _live(chosen, **server) if file is None else workloads.cluster_of(file)
    if not cluster.nodes and not add_nodes:
        raise UserError(f"{cluster.name} has no nodes", "give the dump of a cluster, or add nodes with --add-nodes")
    present = _configuration_of(cluster)
    changes = Changes(
        pods=_pods(pod_files, cluster),
        nodes=_nodes(cluster, add_nodes, pools),
        drained=list(dict.fromkeys(drained)),
        reschedule=reschedule,
    )
    question = Question(
        cluster=cluster,
        loaded=chosen or present,
        baseline=present,
        changes=changes,
        counted=_counted(shape, count_of, cluster),
        most=most,
    )
    answer = what_if.answer(question)
    if as_json:
        output.document(answer.document())
    else:
        _show(answer, shape or str(count_of))


def _live(chosen: Loaded | None, **server: Any) -> Trace:
    async def read(client: Client) -> Dump:
        return await cluster_dump.take(client, frameworks(chosen).values() if chosen is not None else ())

    found = session.at(endpoints.nearest(**server), read)
    if found.left_out:
        output.note(f"left out, since this server does not let them be read: {', '.join(found.left_out)}")
    return traces.from_objects(cluster_dump.objects_of(enumerate(found.lines), name="the cluster"), "the cluster")


def _configuration_of(cluster: Trace) -> Loaded:
    if cluster.configuration is None:
        return third_party.default(builtin.registry())
    try:
        return third_party.load_settings(resolution.read(cluster.configuration), builtin.registry())
    except ConfigurationError as error:
        raise UserError(
            f"the configuration in {cluster.name}: {'; '.join(map(str, error.faults))}",
            "give its plugins with --plugin, and the configuration with --scheduler-config",
        ) from error


def _nodes(cluster: Trace, lines: Sequence[str], pools: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = list(clusters.nodes(lines))
    for text in pools:
        matched = _POOL.fullmatch(text)
        if matched is None:
            raise UserError(f'"{text}" does not say which pool grows', "write LABEL=VALUE:TIMES, such as pool=gpu:2")
        found += cluster_changes.copies_of_pool(cluster, {matched["label"]: matched["value"]}, int(matched["times"]))
    return cluster_changes.renamed(found, map(meta.name, cluster.nodes))


def _pods(files: Iterable[Path], cluster: Trace) -> list[dict[str, Any]]:
    classes = [document for kind, document in cluster.objects if kind == "PriorityClass"]
    try:
        found = [each for file in files for each in scenarios.flattened(cluster_files.objects(file))]
        return [scenarios.checked_incoming(pod, classes, path=path) for path, pod in cluster_changes.pods_of(found)]
    except MalformedObjectError as error:
        raise UserError(str(error)) from error


def _counted(shape: str | None, file: Path | None, cluster: Trace) -> dict[str, Any] | None:
    if shape is not None:
        return clusters.pod(shape, name="more")
    if file is None:
        return None
    found = _pods([file], cluster)
    if not found:
        raise UserError(f"{file} has no pod", "give the manifest of a pod or of a workload")
    return found[0]


# --- output -----------------------------------------------------------------------------------------------------------


def _show(answer: Answer, counted: str) -> None:
    rows = [
        *(("fits" if each.cause is Cause.NEW else "starts", each) for each in answer.placed()),
        *(("moves", each) for each in answer.moves()),
        *(("waits", each) for each in answer.waiting()),
        *(("preempted", each) for each in answer.preempted()),
    ]
    told = [(each.pod, result, each.source, each.target, _why(each)) for result, each in rows]
    told += [(each.pod, "lost", each.node, "", each.why) for each in answer.lost]
    told += [(each.pod, "stays", each.node, each.node, each.why) for each in answer.stays]
    if told:
        output.table(["POD", "RESULT", "FROM", "TO", "WHY"], told)
        click.echo()
    if answer.count is not None:
        count = answer.count
        click.echo(f"{'At least ' if count.at_least else ''}{count.number} more of {counted} would fit.")
        if count.why:
            click.echo(f"The next one would wait: {count.why}")
        click.echo()
    click.echo(_summary(answer))
    for note in answer.notes:
        output.note(note)


def _why(fate: Fate) -> str:
    parts = [
        f"by {fate.preemptor}" if fate.preemptor else fate.cause.value if fate.source and fate.target else "",
        fate.why,
    ]
    told = "; ".join(filter(None, parts))
    return f"{told} (also without the change)".strip() if fate.unchanged else told


def _summary(answer: Answer) -> str:
    numbers = (
        (len(answer.placed()), "placed"),
        (len(answer.moves()), "moved"),
        (len(answer.waiting()), "waiting"),
        (len(answer.preempted()), "preempted"),
        (len(answer.lost), "lost"),
    )
    pods = ", ".join(f"{number} {word}" for number, word in numbers if number) or "no change"
    shares = ", ".join(f"{name} {old:.0%} -> {new:.0%}" for name, (old, new) in answer.allocated.items())
    return f"Pods: {pods}. Nodes: {answer.nodes}.{f' Allocated: {shares}.' if shares else ''}"
