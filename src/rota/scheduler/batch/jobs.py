"""A group of pods: its minimum to start, its progress, and its sub-groups."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rota.api import selectors
from rota.api.durations import duration
from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.batch.hypernodes import HyperNodes
from rota.scheduler.batch.statuses import ALLOCATED, READY, VALID, PodGroupPhase, TaskStatus
from rota.scheduler.batch.tasks import PREEMPTABLE, Task, revocable_zone, truth

WAITING_TIME: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
BUDGET_MIN: Final = "volcano.sh/jdb-min-available"
BUDGET_MAX: Final = "volcano.sh/jdb-max-unavailable"


class Tally:
    """Pods by state."""

    __slots__ = ("ready", "tasks", "waiting_best_effort")

    def __init__(self) -> None:
        self.tasks: dict[TaskStatus, dict[str, Task]] = {}
        #: The number of pods with allocated resources, those that have succeeded included.
        self.ready = 0
        #: The number of pending pods without requests.
        self.waiting_best_effort = 0

    def of(self, status: TaskStatus) -> dict[str, Task]:
        """Give the pods in a state, by uid."""
        return self.tasks.get(status) or {}

    def count(self, statuses: Iterable[TaskStatus]) -> int:
        """Count the pods in some states."""
        return sum(len(self.tasks[status]) for status in statuses if status in self.tasks)

    def put(self, task: Task) -> None:
        """Count a pod in, in its present state."""
        self.tasks.setdefault(task.status, {})[task.uid] = task
        self.ready += task.status in READY
        if task.best_effort and task.status is TaskStatus.PENDING:
            self.waiting_best_effort += 1

    def take(self, task: Task) -> None:
        """Count a pod out."""
        there = self.tasks[task.status]
        del there[task.uid]
        self.ready -= task.status in READY
        if not there:
            del self.tasks[task.status]
        if task.best_effort and task.status is TaskStatus.PENDING:
            self.waiting_best_effort -= 1

    @property
    def waiting(self) -> int:
        """The number of pipelined pods."""
        return len(self.of(TaskStatus.PIPELINED))


class Topology:
    """The network topology requirement of a group."""

    __slots__ = ("highest_tier", "mode")

    def __init__(self, spec: Mapping[str, Any], tree: HyperNodes) -> None:
        self.mode: str = spec.get("mode") or "hard"
        tier = spec.get("highestTierAllowed")
        if tier is None and spec.get("highestTierName"):
            tier = tree.tiers_by_name.get(spec["highestTierName"])
        if self.mode == "soft":
            # A preference is a requirement that the whole cluster meets, so that lower domains are tried first.
            self.mode, tier = "hard", tree.top.tier
        self.highest_tier: int | None = tier

    @property
    def hard(self) -> bool:
        """Whether the requirement is hard."""
        return self.mode == "hard" and self.highest_tier is not None

    @property
    def soft(self) -> bool:
        """Whether it is a preference."""
        return self.mode == "soft"


class SubJob(Tally):
    """A sub-group; a group without sub-groups is one itself."""

    __slots__ = (
        "group",
        "job",
        "match_index",
        "members",
        "min_available",
        "priority",
        "topology",
        "topology_node",
        "uid",
    )

    def __init__(
        self, *, uid: str, group: str, job: str, min_available: int, topology: Topology | None, match_index: int
    ) -> None:
        super().__init__()
        self.uid: Final = uid
        #: The policy that defines it.
        self.group: Final = group
        self.job: Final = job
        self.min_available: Final = min_available
        self.match_index: Final = match_index
        self.topology: Final = topology
        #: The hypernode that its pods are spread over, "" while it has none.
        self.topology_node = ""
        self.members: dict[str, Task] = {}
        #: The highest priority of its pods.
        self.priority = 0

    @property
    def is_ready(self) -> bool:
        """Whether enough pods are allocated."""
        return self.ready + self.waiting_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough pods are allocated or pipelined."""
        return self.waiting + self.ready + self.waiting_best_effort >= self.min_available

    def placed(self) -> list[Task]:
        """Give its pods that use resources."""
        return [task for status in ALLOCATED for task in self.of(status).values()]

    def needs(self) -> Amounts:
        """Give what all its waiting pods ask for."""
        return amounts.total(task.request for task in self.of(TaskStatus.PENDING).values())


class Job(Tally):
    """A group of pods."""

    __slots__ = (
        "allocated",
        "annotations",
        "budget_max",
        "budget_min",
        "created",
        "enforces_roles",
        "fit_errors",
        "group",
        "key",
        "labels",
        "members",
        "message",
        "min_available",
        "min_resources",
        "min_subjobs",
        "minimum_by_role",
        "name",
        "namespace",
        "phase",
        "policies",
        "preemptable",
        "priority",
        "queue",
        "requested",
        "revocable_zone",
        "subjobs",
        "topology",
        "topology_node",
        "waiting_time",
    )

    def __init__(self, group: Mapping[str, Any], *, priority: int, tree: HyperNodes) -> None:
        super().__init__()
        meta, spec = group["metadata"], group.get("spec") or {}
        self.group = group
        self.name: Final[str] = meta["name"]
        self.namespace: Final[str] = meta.get("namespace") or "default"
        self.key: Final = f"{self.namespace}/{self.name}"
        self.created: Final[str] = meta.get("creationTimestamp") or ""
        self.annotations: Final[Mapping[str, str]] = meta.get("annotations") or {}
        self.labels: Final[Mapping[str, str]] = meta.get("labels") or {}
        self.queue: Final[str] = spec.get("queue") or ""
        self.priority: Final = priority
        self.min_available: Final[int] = spec.get("minMember") or 0
        self.minimum_by_role: Final[dict[str, int]] = dict(spec.get("minTaskMember") or {})
        #: Whether minima of roles count; they do not if their sum exceeds the group's minimum.
        self.enforces_roles: Final = self.min_available >= sum(self.minimum_by_role.values())
        wanted = spec.get("minResources")
        self.min_resources: Final = None if wanted is None else amounts.read(wanted)
        topology = spec.get("networkTopology")
        self.topology: Final = None if topology is None else Topology(topology, tree)
        self.policies: Final = [Policy(each, job=self.key, tree=tree) for each in spec.get("subGroupPolicy") or ()]
        self.min_subjobs: Final = {policy.group: policy.min_subjobs for policy in self.policies}
        self.phase = PodGroupPhase((group.get("status") or {}).get("phase") or "")
        self.waiting_time: Final = _waiting_time(self.annotations)
        self.preemptable: Final = _preemptable(self.annotations, self.labels)
        self.revocable_zone: Final = revocable_zone(self.annotations)
        self.budget_min: Final = self.annotations.get(BUDGET_MIN, "")
        self.budget_max: Final = "" if self.budget_min else self.annotations.get(BUDGET_MAX, "")
        self.members: dict[str, Task] = {}
        self.subjobs: dict[str, SubJob] = {}
        self.allocated: Final = Amounts()
        self.requested: Final = Amounts()
        self.topology_node = ""
        #: By pod, why no node fits.
        self.fit_errors: dict[str, FitErrors] = {}
        #: Why the whole group was rejected.
        self.message = ""

    def __repr__(self) -> str:
        return f"<Job {self.key}>"

    # --- pods -------------------------------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """Add a pod, when the state is built."""
        self.members[task.uid] = task
        self.requested.add(task.request)
        if task.status in ALLOCATED:
            self.allocated.add(task.request)
        self.put(task)
        subjob = self._subjob_of(task)
        task.subjob = subjob.uid
        subjob.members[task.uid] = task
        subjob.priority = max(subjob.priority, task.priority)
        subjob.put(task)

    def move(self, task: Task, status: TaskStatus) -> None:
        """Set a pod's state."""
        subjob = self.subjobs[task.subjob]
        self.take(task)
        subjob.take(task)
        was, now = task.status in ALLOCATED, status in ALLOCATED
        task.status = status
        if was != now:
            (self.allocated.add if now else self.allocated.sub)(task.request)
        self.put(task)
        subjob.put(task)

    def remove(self, task: Task) -> None:
        """Remove a pod that no longer exists."""
        del self.members[task.uid]
        self.requested.sub(task.request)
        if task.status in ALLOCATED:
            self.allocated.sub(task.request)
        self.take(task)
        subjob = self.subjobs[task.subjob]
        del subjob.members[task.uid]
        subjob.take(task)
        if not subjob.members:
            del self.subjobs[task.subjob]

    def _subjob_of(self, task: Task) -> SubJob:
        for policy in self.policies:
            values = policy.values_of(task)
            if values:
                uid = f"{self.key}/{policy.name}-{'-'.join(values)}"
                if uid not in self.subjobs:
                    self.subjobs[uid] = SubJob(
                        uid=uid,
                        group=policy.group,
                        job=self.key,
                        min_available=policy.size,
                        topology=policy.topology,
                        match_index=_number(values[0]),
                    )
                return self.subjobs[uid]
        return self.default_subjob()

    def default_subjob(self) -> SubJob:
        """Give the sub-group of the pods that no policy matches."""
        found = self.subjobs.get(self.key)
        if found is None:
            found = self.subjobs[self.key] = SubJob(
                uid=self.key,
                group=self.key,
                job=self.key,
                min_available=1 if self.policies else self.min_available,
                topology=self.topology,
                match_index=0,
            )
        return found

    # --- how far it is ----------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether the group is not yet enqueued."""
        return self.phase in (PodGroupPhase.PENDING, PodGroupPhase.NONE)

    @property
    def is_ready(self) -> bool:
        """Whether enough pods are allocated."""
        return self.ready + self.waiting_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough pods are allocated or pipelined."""
        return self.waiting + self.ready + self.waiting_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Whether fewer pods than the minimum are allocated or pipelined."""
        return self.waiting + self.ready < self.min_available

    def roles_met(self, statuses: Iterable[TaskStatus], *, best_effort: bool = True) -> bool:
        """Whether every role has its minimum of pods in these states (or waiting without requests)."""
        if not self.enforces_roles:
            return True
        if not self.minimum_by_role:
            return True
        counts = self.by_role(statuses, best_effort=best_effort)
        return all(counts.get(role, 0) >= minimum for role, minimum in self.minimum_by_role.items())

    def by_role(self, statuses: Iterable[TaskStatus], *, best_effort: bool) -> dict[str, int]:
        """Count pods by role."""
        counts: dict[str, int] = {}
        for status in statuses:
            for task in self.of(status).values():
                counts[task.role] = counts.get(task.role, 0) + 1
        if best_effort and self.waiting_best_effort:
            for task in self.of(TaskStatus.PENDING).values():
                if task.best_effort:
                    counts[task.role] = counts.get(task.role, 0) + 1
        return counts

    def roles_valid(self) -> bool:
        """Whether every role has enough pods in any state."""
        if not self.enforces_roles or not self.minimum_by_role:
            return True
        counts = self.by_role(VALID, best_effort=False)
        return all(counts.get(role, 0) >= minimum for role, minimum in self.minimum_by_role.items() if minimum)

    def subjobs_valid(self) -> bool:
        """Whether there are enough sub-groups at all."""
        return self._subjobs_met(lambda _: True)

    def subjobs_ready(self) -> bool:
        """Whether enough sub-groups are ready."""
        return self._subjobs_met(lambda subjob: subjob.is_ready)

    def subjobs_pipelined(self) -> bool:
        """Whether enough sub-groups are pipelined."""
        return self._subjobs_met(lambda subjob: subjob.is_pipelined)

    def _subjobs_met(self, holds: Callable[[SubJob], bool]) -> bool:
        if not self.min_subjobs:
            return True
        counts: dict[str, int] = {}
        for subjob in self.subjobs.values():
            if holds(subjob):
                counts[subjob.group] = counts.get(subjob.group, 0) + 1
        return all(counts.get(group, 0) >= minimum for group, minimum in self.min_subjobs.items())

    # --- topology ---------------------------------------------------------------------------------------------------

    @property
    def with_topology(self) -> bool:
        """Whether the group or a sub-group has a topology requirement."""
        return self.topology is not None or any(subjob.topology is not None for subjob in self.subjobs.values())

    @property
    def hard_topology(self) -> bool:
        """Whether the group or a sub-group has a hard topology requirement."""
        own = self.topology is not None and self.topology.hard
        return own or any(each.topology is not None and each.topology.hard for each in self.subjobs.values())

    # --- resources --------------------------------------------------------------------------------------------------

    def minimum(self) -> Amounts:
        """Give the minimum resources of the group."""
        return Amounts() if self.min_resources is None else self.min_resources.copy()

    def elastic(self) -> Amounts:
        """Give its allocated resources beyond the minimum."""
        return amounts.exceeded(self.allocated, self.minimum())

    def without_gated(self, wanted: Amounts) -> Amounts:
        """Subtract the requests of pods with foreign scheduling gates; never below zero."""
        held = [task.request for task in self.members.values() if task.foreign_gates]
        gated = amounts.total(held) if held else None
        if gated is None or gated.empty:
            return wanted
        result = wanted.copy()
        result.cpu = max(result.cpu - gated.cpu, 0.0)
        result.memory = max(result.memory - gated.memory, 0.0)
        for name, amount in wanted.others.items():
            if name in gated.others:
                result.others[name] = max(amount - gated.others[name], 0.0)
        return result

    def still_inqueue(self) -> Amounts:
        """Give its minimum less its allocated resources."""
        minimum, result = self.minimum(), Amounts()
        result.cpu = max(minimum.cpu - self.allocated.cpu, 0.0)
        result.memory = max(minimum.memory - self.allocated.memory, 0.0)
        for name, amount in minimum.others.items():
            if name not in self.allocated.others:
                result.others[name] = amount
            elif amount > self.allocated.others[name]:
                result.others[name] = amount - self.allocated.others[name]
        return result

    # --- what went wrong --------------------------------------------------------------------------------------------

    def failed_roles(self, subjob: str) -> set[str]:
        """Give the roles for which some pod of a sub-group found no node."""
        return {self.members[uid].role for uid in self.fit_errors if self.members[uid].subjob == subjob}

    def may_go_on(self, subjob_uid: str) -> bool:
        """Whether other pods can still complete the group after one found no node."""
        if self.min_available == len(self.members):
            return False
        subjob = self.subjobs.get(subjob_uid)
        if subjob is not None and subjob.min_available >= len(subjob.members):
            return False
        if self.policies:
            return True
        failed = self.failed_roles(subjob_uid)
        if not self.enforces_roles:
            left = sum(task.role not in failed for task in self.of(TaskStatus.PENDING).values())
            return self.ready + left >= self.min_available
        have = self.by_role(READY, best_effort=True)
        return all(have.get(role, 0) >= self.minimum_by_role.get(role, 0) for role in failed)

    def forget_errors(self, subjob: str | None = None) -> None:
        """Forget why pods found no node: all, or those of a sub-group."""
        if subjob is None:
            self.fit_errors, self.message = {}, ""
        else:
            self.fit_errors = {
                uid: errors for uid, errors in self.fit_errors.items() if self.members[uid].subjob != subjob
            }


class Policy:
    """Which pods of a group form sub-groups."""

    __slots__ = ("group", "keys", "min_subjobs", "name", "selector", "size", "topology")

    def __init__(self, spec: Mapping[str, Any], *, job: str, tree: HyperNodes) -> None:
        self.name: Final[str] = spec.get("name") or ""
        self.group: Final = f"{job}/{self.name}"
        selector = spec.get("labelSelector")
        self.selector: Final = None if selector is None else selectors.from_object(selector)
        self.keys: Final[tuple[str, ...]] = tuple(spec.get("matchLabelKeys") or ())
        size = spec.get("subGroupSize")
        self.size: Final[int] = 1 if size is None else size
        self.min_subjobs: Final[int] = spec.get("minSubGroups") or 0
        topology = spec.get("networkTopology")
        self.topology: Final = None if topology is None else Topology(topology, tree)

    def values_of(self, task: Task) -> list[str]:
        """Give the label values that name a pod's sub-group; none if the policy does not match the pod."""
        if self.selector is not None and not self.selector.matches(task.labels):
            return []
        values = [task.labels.get(key, "") for key in self.keys]
        return values if all(values) else []


def _waiting_time(annotations: Mapping[str, str]) -> float | None:
    for key in WAITING_TIME:
        seconds = duration(annotations[key]) if key in annotations else None
        if seconds is not None and seconds > 0:
            return seconds
    return None


def _preemptable(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    for source in (annotations, labels):
        if PREEMPTABLE in source:
            return truth(source[PREEMPTABLE]) is True
    return False


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
