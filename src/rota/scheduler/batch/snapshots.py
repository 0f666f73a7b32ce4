"""Builds the state of a session from API objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.batch.hypernodes import HyperNodes
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import State
from rota.scheduler.batch.tasks import Task

GROUP: Final = "scheduling.k8s.io/group-name"
OVER: Final = frozenset({"Succeeded", "Failed"})

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
    now: float = 0.0,
    interner: PodInterner | None = None,
) -> State:
    """Build a state; groups without an existing queue are skipped, and pods without a group only use resources."""
    words = interner or PodInterner()
    table = NodeTable(node for node in nodes if _is_ready(node))
    cluster = Cluster()
    for node in table.objects:
        cluster.set_node(read_node(node, path=f"node {node['metadata']['name']}"))
    tree = HyperNodes(hypernodes, table)
    known_queues = {queue["metadata"]["name"]: Queue(queue) for queue in queues}
    jobs = {job.key: job for job in _jobs(groups, priority_classes, tree) if job.queue in known_queues}
    for position, pod in enumerate(pods):
        info = words.pod(pod, path=f"pods[{position}]")
        group = (pod["metadata"].get("annotations") or {}).get(GROUP) or ""
        key = f"{info.namespace}/{group}" if group else ""
        task = Task(pod, info, key)
        if key in jobs:
            jobs[key].add(task)
        if task.node in table.rows and (pod.get("status") or {}).get("phase") not in OVER:
            table.add(task)
            cluster.add_pod(info)
    _find_homes(jobs.values(), tree, table)
    return State(
        nodes=table,
        cluster=cluster,
        jobs=dict(sorted(jobs.items())),
        queues=dict(sorted(known_queues.items())),
        hypernodes=tree,
        quotas=_quotas(quotas),
        budgets=budgets,
        now=now,
    )


def _jobs(groups: Objects, priority_classes: Objects, tree: HyperNodes) -> Iterable[Job]:
    values = {each["metadata"]["name"]: int(each.get("value") or 0) for each in priority_classes}
    default = next((int(each.get("value") or 0) for each in priority_classes if each.get("globalDefault")), 0)
    for group in groups:
        name = (group.get("spec") or {}).get("priorityClassName")
        yield Job(group, priority=values.get(name, default) if name else default, tree=tree)


def _find_homes(jobs: Iterable[Job], tree: HyperNodes, nodes: NodeTable) -> None:
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


def _quotas(quotas: Objects) -> dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]]:
    found: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for quota in quotas:
        status = quota.get("status") or {}
        namespace = quota["metadata"].get("namespace") or "default"
        found.setdefault(namespace, []).append((status.get("hard") or {}, status.get("used") or {}))
    return found


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")
