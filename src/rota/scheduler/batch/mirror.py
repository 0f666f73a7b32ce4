"""The state of sessions, kept up to date from changes instead of being built for every pass.

A `Mirror` takes the changes of groups, queues and pods, and the deltas of the scheduler's cluster. `state` gives a
`State` that equals one that `snapshots.build` would build from the same objects, up to the order of nodes; its cost is
that of the changes. After the pass `settle` takes back everything that the session did not commit: reserved and held
places end with the pass, bindings and evictions that were sent stay until an event shows their effect, or until
`unbind` and `unevict` report a failure.

Resources of nodes come from the cluster's columns, which ordinary pods share. One thread at a time uses a mirror.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np

from rota.columns.cluster import Cluster, Savepoint
from rota.columns.members import GroupMember
from rota.columns.pods import PodInfo
from rota.columns.snapshots import Deltas, Snapshot
from rota.scheduler.batch import amounts, numa_topologies, snapshots
from rota.scheduler.batch.amounts import CPU, MEMORY, PODS, Amounts
from rota.scheduler.batch.hypernodes import HyperNodes
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch.nodes import NodeRow, NodeTable
from rota.scheduler.batch.numa_topologies import NumaTopology
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.quiet_groups import QuietGroups, is_quiet
from rota.scheduler.batch.run_times import RunTimes
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.states import Ask, State
from rota.scheduler.batch.statuses import PodGroupPhase, TaskStatus
from rota.scheduler.batch.tasks import Task

Document = Mapping[str, Any]
#: Pods in these states use a node.
_ON_NODES: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.RELEASING})
#: Places that end with the pass.
_PASSING: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


#: After this time the reason of a group that waits is given again.
WORDS_S: Final = 30.0
_NEVER: Final = (-WORDS_S, ("", ""))


class Mirror:
    """Groups, queues, pods and nodes as sessions need them."""

    def __init__(self, source: Cluster) -> None:
        """`source` is the scheduler's cluster; call `take` and `apply` for its changes."""
        self._copy: Final = Snapshot(source)
        self.cluster: Final = self._copy.cluster
        self.queues: Final[dict[str, Queue]] = {}
        #: Groups whose queue may not exist yet, by key.
        self.jobs: Final[dict[str, Job]] = {}
        self._groups: Final[dict[str, Document]] = {}
        #: Phases that were decided and that the API server has not confirmed, by group.
        self._phases: Final[dict[str, PodGroupPhase]] = {}
        self._priority_classes: Final[dict[str, Document]] = {}
        self._priorities: tuple[dict[str, int], int] = ({}, 0)
        self._hypernodes: Final[dict[str, Document]] = {}
        self._quotas: Final[dict[str, Document]] = {}
        #: All members of groups by uid, and by the key of their group.
        self._tasks: Final[dict[str, Task]] = {}
        self._members: Final[dict[str, dict[str, Task]]] = {}
        #: Members that use a node, by the node's name and their key.
        self._on_node: Final[dict[str, dict[str, Task]]] = {}
        #: Terminating pods that are no members, by node and uid.
        self._leaving: Final[dict[str, dict[str, Amounts]]] = {}
        self._leaving_at: Final[dict[str, str]] = {}
        #: Nodes that are not ready.
        self._not_ready: Final[set[str]] = set()
        #: Members that were sent to binding, with their node, and members whose eviction was sent.
        self._binding: Final[dict[str, str]] = {}
        self._evicting: Final[set[str]] = set()
        self._table = NodeTable(())
        self._tree = HyperNodes((), self._table)
        self._seen = -1
        self._table_is_stale = True
        self._tree_is_stale = True
        #: Names of nodes whose row must be counted again.
        self._touched: Final[set[str]] = set()
        self._savepoint: Savepoint | None = None
        #: Measured usage, by node; and how to ask programs outside.
        self.usage: Mapping[str, NodeUsage] = {}
        self.ask: Ask | None = None
        self._numa: Final[dict[str, NumaTopology]] = {}
        self._done_at: Final[dict[str, float]] = {}
        self.run_times: Final = RunTimes()
        self._planned: Final[dict[str, float]] = {}
        self._made_room: Final[dict[str, None]] = {}
        #: Groups for which a pass may have to decide something, and all others.
        self._active: dict[str, Job] = {}
        self.quiet: Final = QuietGroups()
        #: Groups that changed since the last pass.
        self._changed_groups: Final[set[str]] = set()
        #: Groups with a requirement for network topology.
        self._with_topology: Final[set[str]] = set()
        #: Why groups wait, by key, as passes found it; and when, with what the reason was made from.
        self.waiting: Final[dict[str, str]] = {}
        self._explained: Final[dict[str, tuple[float, tuple[str, str]]]] = {}

    # --- changes ----------------------------------------------------------------------------------------------------

    def take(self) -> Deltas:
        """Give the changes of the cluster since the last time; to be called where the cluster changes."""
        return self._copy.take()

    def apply(self, deltas: Deltas) -> None:
        """Apply changes of the cluster."""
        self._copy.apply(deltas)

    @property
    def pods(self) -> Collection[str]:
        """The uids of all pods of groups."""
        return self._tasks.keys()

    @property
    def busy_groups(self) -> int:
        """About how many groups the next pass looks at."""
        return len(self._active) + len(self._changed_groups)

    def put_group(self, group: Document) -> None:
        """Add or update a PodGroup."""
        key = _key(group)
        self._groups[key] = group
        phase = self._phases.get(key)
        if phase is not None and phase.value == (group.get("status") or {}).get("phase"):
            del self._phases[key]
        known = self.jobs.get(key)
        self._changed_groups.add(key)
        if known is not None and _same_spec(known.group, group):
            known.group = group
            known.phase = self._phases.get(key) or _phase(group)
            return
        self._build_job(key)

    def remove_group(self, key: str) -> None:
        """Remove a PodGroup; its pods are kept in case that it returns."""
        self._groups.pop(key, None)
        self._phases.pop(key, None)
        self.jobs.pop(key, None)
        self.waiting.pop(key, None)
        self._explained.pop(key, None)
        self._with_topology.discard(key)
        self._changed_groups.add(key)

    def put_queue(self, queue: Document) -> None:
        """Add or update a Queue; one whose controller has not said anything yet is open."""
        status = queue.get("status") or {}
        known = queue if status.get("state") else {**queue, "status": {**status, "state": "Open"}}
        self.queues[queue["metadata"]["name"]] = Queue(known)

    def remove_queue(self, name: str) -> None:
        """Remove a Queue."""
        self.queues.pop(name, None)

    def put_other(self, kind: str, document: Document) -> None:
        """Add or update a PriorityClass, a HyperNode, a ResourceQuota or a Numatopology."""
        if kind == "Numatopology":
            self._numa[_key(document)] = numa_topologies.of_document(document)
            return
        self._of_kind(kind)[_key(document)] = document
        self._changed(kind)

    def remove_other(self, kind: str, key: str) -> None:
        """Remove a PriorityClass, a HyperNode, a ResourceQuota or a Numatopology."""
        if kind == "Numatopology":
            self._numa.pop(key, None)
            return
        self._of_kind(kind).pop(key, None)
        self._changed(kind)

    def _of_kind(self, kind: str) -> dict[str, Document]:
        match kind:
            case "PriorityClass":
                return self._priority_classes
            case "HyperNode":
                return self._hypernodes
            case _:
                return self._quotas

    def _changed(self, kind: str) -> None:
        if kind == "HyperNode":
            self._tree_is_stale = True
        elif kind == "PriorityClass":
            self._priorities = snapshots.priorities(self._priority_classes.values())
            self._build_jobs(lambda _: True)

    def set_ready(self, node: str, *, ready: bool) -> None:
        """Record whether a node is ready."""
        if ready != (node in self._not_ready):
            return
        if ready:
            self._not_ready.discard(node)
        else:
            self._not_ready.add(node)
        self._table_is_stale = True

    def put_member(self, info: PodInfo, member: GroupMember) -> None:
        """Add or update a pod of a group."""
        known = self._tasks.get(info.uid)
        if info.node_name or member.leaving or member.over:
            self._binding.pop(info.uid, None)
        if member.leaving or member.over:
            self._evicting.discard(info.uid)
        if known is not None:
            self._drop(known)
        self._add(info, member)

    def put_leaving(self, uid: str, node: str, requests: Mapping[str, int]) -> None:
        """Add a terminating pod that is in no group."""
        self.remove_pod(uid)
        self._leaving.setdefault(node, {})[uid] = amounts.of_requests(requests)
        self._leaving_at[uid] = node
        self._touched.add(node)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        known = self._tasks.get(uid)
        if known is not None:
            self._drop(known)
        self._binding.pop(uid, None)
        self._evicting.discard(uid)
        node = self._leaving_at.pop(uid, None)
        if node is not None:
            del self._leaving[node][uid]
            self._touched.add(node)

    def unbind(self, uid: str) -> None:
        """A binding that was sent has failed."""
        if self._binding.pop(uid, None) is not None:
            self._renew(uid)

    def unevict(self, uid: str) -> None:
        """An eviction that was sent has failed."""
        if uid in self._evicting:
            self._evicting.discard(uid)
            self._renew(uid)

    def bind(self, uid: str, node: str) -> None:
        """Count a pod as being bound, for a leader that continues the work of another."""
        if uid in self._tasks:
            self._binding[uid] = node
            self._renew(uid)

    def evict(self, task: Task) -> None:
        """Count a pod as being evicted that no session evicted."""
        self._evicting.add(task.uid)
        self._touched.add(task.node)
        self._changed_groups.add(task.job)

    def _renew(self, uid: str) -> None:
        task = self._tasks.get(uid)
        if task is not None:
            self._drop(task)
            self._add(task.info, task.member)

    def _add(self, info: PodInfo, member: GroupMember) -> None:
        key = f"{info.namespace}/{member.group}"
        task = Task(member, info, key)
        if info.uid in self._binding:
            task.node = self._binding[info.uid]
            task.status = TaskStatus.BINDING
        elif info.uid in self._evicting:
            task.status = TaskStatus.RELEASING
        self._tasks[info.uid] = task
        self._members.setdefault(key, {})[info.uid] = task
        self._count(task)
        self._changed_groups.add(key)
        if key in self.jobs:
            self.jobs[key].add(task)

    def _drop(self, task: Task) -> None:
        del self._tasks[task.uid]
        there = self._members[task.job]
        del there[task.uid]
        if not there:
            del self._members[task.job]
        on_node = self._on_node.get(task.node)
        if on_node is not None and on_node.pop(task.key, None) is not None:
            self._touched.add(task.node)
        self._changed_groups.add(task.job)
        if task.job in self.jobs:
            self.jobs[task.job].remove(task)

    def _count(self, task: Task) -> None:
        if task.node and task.status in _ON_NODES:
            self._on_node.setdefault(task.node, {})[task.key] = task
            self._touched.add(task.node)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _build_jobs(self, chosen: Callable[[Job], bool]) -> None:
        for key in [key for key, job in self.jobs.items() if chosen(job)]:
            self._build_job(key)

    def _build_job(self, key: str) -> None:
        group = self._groups[key]
        values, default = self._priorities
        job = snapshots.job_of(group, values, default, self._tree)
        job.phase = self._phases.get(key, job.phase)
        for task in self._members.get(key, {}).values():
            job.add(task)
        self.jobs[key] = job
        self._changed_groups.add(key)
        (self._with_topology.add if _wants_topology(job) else self._with_topology.discard)(key)

    def decided_phase(self, key: str, phase: str) -> None:
        """Keep a decided phase until the API server has it."""
        decided, job = PodGroupPhase(phase), self.jobs[key]
        if job.phase is not decided:
            job.phase = decided
            self._changed_groups.add(key)
        if decided is _phase(self._groups[key]):
            self._phases.pop(key, None)
        else:
            self._phases[key] = decided

    def forget_phase(self, key: str) -> None:
        """Use the API server's phase again: the decided one could not be written."""
        self._changed_groups.add(key)
        if self._phases.pop(key, None) is not None and key in self.jobs:
            self.jobs[key].phase = _phase(self._groups[key])

    # --- passes -----------------------------------------------------------------------------------------------------

    def state(self, now: float) -> State:
        """Give the state of a pass; `settle` must end the pass."""
        self._refresh()
        snapshots.find_homes([self.jobs[key] for key in self._with_topology], self._tree, self._table)
        self._sort_out()
        self._savepoint = self.cluster.savepoint()
        return State(
            nodes=self._table,
            cluster=self.cluster,
            jobs=self._served(),
            active=dict(sorted((key, job) for key, job in self._active.items() if job.queue in self.queues)),
            quiet={name: sums for name, sums in self.quiet.sums.items() if name in self.queues},
            queues=dict(sorted(self.queues.items())),
            hypernodes=self._tree,
            quotas=snapshots.quotas_by_namespace(self._quotas.values()),
            budgets=tuple(self.cluster.catalog.list("PodDisruptionBudget")),
            usage=self.usage,
            numa=self._numa,
            done_at=self._done_at,
            run_times=self.run_times,
            planned=self._planned,
            made_room=self._made_room,
            ask=self.ask,
            now=now,
        )

    def _sort_out(self) -> None:
        """Find out which groups passes have to look at; others than those that changed or are active stay quiet."""
        active: dict[str, Job] = {}
        for key in self._changed_groups | self._active.keys():
            self.quiet.discard(key)
            job = self.jobs.get(key)
            if job is None:
                continue
            if is_quiet(job):
                self.quiet.add(job)
            else:
                active[key] = job
        self._active = active

    def _served(self) -> dict[str, Job]:
        """Give the groups whose queue exists."""
        named = {*self.quiet.sums, *(job.queue for job in self._active.values())}
        if named <= self.queues.keys():
            return self.jobs
        return {key: job for key, job in self.jobs.items() if job.queue in self.queues}

    def concerned(self, session: Session) -> list[str]:
        """Give the groups whose status may be different after a session, in order; to be called once.

        They are those that changed, and those that wait for another reason, or whose reason is old: its figures may be
        others now.
        """
        found = {key for key in self._changed_groups if key in session.jobs} | session.changed
        self._changed_groups.clear()
        for key, job in session.active.items():
            at, before = self._explained.get(key, _NEVER)
            kind = session.kept_out.get(key, ""), job.message or ("refused" if job.fit_errors else "")
            if key in found or before != kind or session.now - at >= WORDS_S:
                self._explained[key] = session.now, kind
                found.add(key)
        return sorted(found)

    def settle(self, session: Session) -> None:
        """End a pass: keep what was sent, and take back everything else."""
        assert self._savepoint is not None, "a pass has begun"
        self._savepoint.roll_back()
        self._savepoint = None
        sent = {(kind, pod) for kind, pod, _ in session.sent}
        for key in {*session.active, *session.changed}:
            self._settle_job(session.jobs[key], sent)
        self._changed_groups.update(session.changed)
        for row in set(self._table.changes):
            self._touched.add(self._table.names[row])
            for task in self._table.tasks[row].values():
                if task.status is TaskStatus.RUNNING and task.member.phase == "Pending":
                    # An eviction that was taken back leaves a pod as running, though it may not have started.
                    session.jobs[task.job].move(task, TaskStatus.BOUND)

    def _settle_job(self, job: Job, sent: Collection[tuple[str, str]]) -> None:
        for status in _PASSING:
            for task in list(job.of(status).values()):
                job.move(task, TaskStatus.PENDING)
                task.node = ""
        for task in list(job.of(TaskStatus.BINDING).values()):
            if task.uid not in self._binding:
                self._binding[task.uid] = task.node
                self._count(task)
        for task in list(job.of(TaskStatus.RELEASING).values()):
            if not task.member.leaving and ("evict", task.key) in sent:
                self._evicting.add(task.uid)
        if job.fit_errors or job.message:
            job.forget_errors()
        for task in job.of(TaskStatus.PENDING).values():
            task.last, task.evicted_others, task.topology_node, task.devices = None, False, "", ()
        for subjob in job.subjobs.values():
            subjob.topology_node = ""
        job.topology_node = ""

    def _refresh(self) -> None:
        """Bring the table of nodes up to date."""
        changes = self.cluster.change_log.since(self._seen) if self._seen >= 0 else None
        self._seen = self.cluster.change_log.generation
        if changes is None or changes.node or self._table_is_stale or len(self._table) != self.cluster.size:
            self._table = NodeTable(map(self._row, range(self.cluster.size)))
            self._table_is_stale, self._tree_is_stale = False, True
            stale: Iterable[int] = range(self.cluster.size)
        else:
            rows = self._table.rows
            stale = {*changes.pods, *(rows[name] for name in self._touched if name in rows)}
        self._touched.clear()
        self._count_rows([row for row in stale if self._table.names[row]])
        self._table.forget_changes()
        if self._tree_is_stale:
            self._tree_is_stale = False
            self._tree = HyperNodes(self._hypernodes.values(), self._table)
            self._build_jobs(lambda job: job.with_topology or bool(job.policies))

    def _row(self, row: int) -> NodeRow | None:
        node = self.cluster.nodes[row]
        if node is None or node.name in self._not_ready:
            return None
        offered = amounts.of_requests(node.allocatable)
        offered.others[PODS] = float(node.allowed_pods)
        return NodeRow(node.name, node.labels, offered)

    def _count_rows(self, rows: list[int]) -> None:
        """Count what pods use on some nodes, from the cluster's sums."""
        table, cluster = self._table, self.cluster
        if not rows:
            return
        for name, index in table.dimensions.items():
            if name == PODS:
                used = cluster.pod_count[rows].astype(np.float64)
            elif name in cluster.resources:
                used = cluster.requested[cluster.resources[name], rows].astype(np.float64)
                used *= 1.0 if name in (CPU, MEMORY) else 1000.0
            else:
                used = np.zeros(len(rows))
            table.used[index, rows] = used
        table.idle[:, rows] = table.allocatable[:, rows] - table.used[:, rows]
        table.releasing[:, rows] = 0.0
        table.pipelined[:, rows] = 0.0
        for row in rows:
            name = table.names[row]
            table.seat(row, self._on_node.get(name, {}).values())
            for request in self._leaving.get(name, {}).values():
                table.leave(row, request)


def _wants_topology(job: Job) -> bool:
    """Whether a group or one of its possible sub-groups has a topology requirement."""
    return job.topology is not None or any(policy.topology is not None for policy in job.policies)


def _same_spec(old: Document, new: Document) -> bool:
    return (
        old.get("spec") == new.get("spec")
        and old["metadata"].get("labels") == new["metadata"].get("labels")
        and old["metadata"].get("annotations") == new["metadata"].get("annotations")
        and old["metadata"].get("creationTimestamp") == new["metadata"].get("creationTimestamp")
    )


def _phase(group: Document) -> PodGroupPhase:
    return PodGroupPhase((group.get("status") or {}).get("phase") or "")


def _key(document: Document) -> str:
    metadata = document["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
