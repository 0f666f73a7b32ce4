"""Builds the state of a session from API objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rota.columns import members
from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.batch import node_usage, numa_topologies
from rota.scheduler.batch import nodes as node_tables
from rota.scheduler.batch.hypernodes import HyperNodes
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.states import State
from rota.scheduler.batch.tasks import Task

Objects = Sequence[Mapping[str, Any]]


def build(
    *,
    nodes: Objects,
    pods: Objects,
    groups: Objects,
    queues: Objects,
    priority_classes: Objects = (),
    hypernodes: Objects = (),
    quotas: Objects = (),
    budgets: Objects = (),
    metrics: Objects = (),
    topologies: Objects = (),
    now: float = 0.0,
    interner: PodInterner | None = None,
) -> State:
    """Build a state; groups without an existing queue are skipped, and pods without a group only use resources."""
    words = interner or PodInterner()
    ready = sorted((node for node in nodes if is_ready(node)), key=lambda node: str(node["metadata"]["name"]))
    table = node_tables.of_documents(ready)
    cluster = Cluster()
    for node in ready:
        cluster.set_node(read_node(node, path=f"node {node['metadata']['name']}"))
    tree = HyperNodes(hypernodes, table)
    known_queues = {queue["metadata"]["name"]: Queue(queue) for queue in queues}
    jobs = {job.key: job for job in _jobs(groups, priority_classes, tree) if job.queue in known_queues}
    for position, pod in enumerate(pods):
        info = words.pod(pod, path=f"pods[{position}]", keep=True)
        member = members.of_document(pod)
        key = f"{info.namespace}/{member.group}" if member.group else ""
        task = Task(member, info, key)
        if key in jobs:
            jobs[key].add(task)
        if task.node in table.rows and not member.over:
            table.add(task)
            cluster.add_pod(info)
    find_homes(jobs.values(), tree, table)
    return State(
        nodes=table,
        cluster=cluster,
        jobs=dict(sorted(jobs.items())),
        queues=dict(sorted(known_queues.items())),
        hypernodes=tree,
        quotas=quotas_by_namespace(quotas),
        budgets=budgets,
        usage=node_usage.of_documents(metrics),
        numa={str(each["metadata"]["name"]): numa_topologies.of_document(each) for each in topologies},
        now=now,
    )


def _jobs(groups: Objects, priority_classes: Objects, tree: HyperNodes) -> Iterable[Job]:
    values, default = priorities(priority_classes)
    for group in groups:
        yield job_of(group, values, default, tree)


def priorities(priority_classes: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], int]:
    """Give the values of priority classes by name, and the default."""
    values, default = {}, None
    for each in priority_classes:
        values[each["metadata"]["name"]] = value = int(each.get("value") or 0)
        if each.get("globalDefault") and default is None:
            default = value
    return values, default or 0


def job_of(group: Mapping[str, Any], values: Mapping[str, int], default: int, tree: HyperNodes) -> Job:
    """Build a group without its pods."""
    name = (group.get("spec") or {}).get("priorityClassName")
    return Job(group, priority=values.get(name, default) if name else default, tree=tree)


def find_homes(jobs: Iterable[Job], tree: HyperNodes, nodes: NodeTable) -> None:
    """Find the domains that groups already use."""
    if not tree.ready:
        return
    for job in jobs:
        if not job.with_topology:
            continue
        for subjob in job.subjobs.values():
            if subjob.topology is not None:
                rows = [nodes.rows[task.node] for task in subjob.placed() if task.node in nodes.rows]
                subjob.topology_node = _lowest(tree, rows)
        for subjob in job.subjobs.values():
            if subjob.topology_node:
                job.topology_node = tree.common(job.topology_node, subjob.topology_node)


def _lowest(tree: HyperNodes, rows: list[int]) -> str:
    """Give the lowest domain that holds all rows."""
    holding = [each for each in tree.by_name.values() if rows and all(row in each.nodes for row in rows)]
    return min(holding, key=lambda each: (each.tier, each.name)).name if holding else ""


def quotas_by_namespace(
    quotas: Iterable[Mapping[str, Any]],
) -> dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]]:
    """Give what quotas allow and what is used of them, by namespace."""
    found: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for quota in quotas:
        status = quota.get("status") or {}
        namespace = quota["metadata"].get("namespace") or "default"
        found.setdefault(namespace, []).append((status.get("hard") or {}, status.get("used") or {}))
    return found


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node takes part: it is ready, or does not say."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")
