"""The combination of the results of plugins: orders, votes, checks and victims.

Order: the first plugin that makes a difference decides. Votes: a rejection decides at once, a permission ends with the
tier. Victims: inside a tier a pod must be on every list, and the first tier that ends with some pods decides alone; a
plugin that names none ends its tier, while after lists without a common pod the next plugin of the tier starts a new
list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rota.scheduler.batch.conf import BatchConfiguration, PluginOption
from rota.scheduler.batch.heaps import KeyedQueue, PriorityQueue
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Victims, Vote
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.tasks import Task, precedes

#: The switch that enables each method of a plugin; None if there is none.
_SWITCH_OF: Final[Mapping[str, str | None]] = {
    "job_order": "enableJobOrder",
    "queue_order": "enableQueueOrder",
    "task_order": "enableTaskOrder",
    "subjob_order": "enabledSubJobOrder",
    "victim_queue_order": None,
    "job_valid": None,
    "job_ready": "enableJobReady",
    "job_pipelined": "enableJobPipelined",
    "job_starving": "enableJobStarving",
    "job_enqueueable": "enableJobEnqueued",
    "job_enqueued": "enableJobEnqueued",
    "job_needed": "enableJobEnqueued",
    "job_refused": None,
    "subjob_ready": "enabledSubJobReady",
    "subjob_pipelined": "enabledSubJobPipelined",
    "overused": "enabledOverused",
    "allocatable": "enabledAllocatable",
    "preemptive": "enablePreemptive",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "evictable": None,
    "victim_tasks": "enabledVictim",
    "pre_predicate": "enablePredicate",
    "predicate": "enablePredicate",
    "node_order": "enableNodeOrder",
    "batch_node_order": "enableNodeOrder",
    "hypernode_order": "enabledHyperNodeOrder",
    "job_gradients": "enabledHyperNodeGradient",
    "subjob_gradients": "enabledHyperNodeGradient",
    "trial": None,
    "on_allocate": None,
    "on_deallocate": None,
}


class Combination:
    """The enabled methods of all plugins, and what they give together."""

    def __init__(
        self,
        configuration: BatchConfiguration,
        plugins: Mapping[str, BatchPlugin],
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        *,
        quick: bool,
    ) -> None:
        """The plugins are open: which methods they offer may depend on what they found."""
        self._quick: Final = quick
        self._plugins: Final = plugins
        self._jobs: Final = jobs
        self._queues: Final = queues
        #: By group that was not let in, the plugin that rejected it.
        self.kept_out: Final[dict[str, str]] = {}
        self._tiers: Final[dict[str, list[list[Callable[..., Any]]]]] = {
            name: [self._enabled(tier, name, switch) for tier in configuration.tiers]
            for name, switch in _SWITCH_OF.items()
        }
        self._flat: Final = {name: [call for tier in tiers for call in tier] for name, tiers in self._tiers.items()}
        admitting = [one for one in plugins.values() if one.job_enqueueable in self._flat["job_enqueueable"]]
        self._admits_by_need: Final = quick and all(one.admits_by_need for one in admitting)
        #: By what groups need, the plugin that rejected one of them.
        self._rejected: Final[dict[tuple[Any, ...], str]] = {}
        ordering = [one for one in plugins.values() if one.job_order in self._flat["job_order"]]
        #: The keys of all plugins that compare groups; None if one of them has none.
        self._job_keys: Final = [each.job_key for each in ordering] if all(map(_has_key, ordering)) else None

    def _enabled(self, tier: Sequence[PluginOption], name: str, switch: str | None) -> list[Callable[..., Any]]:
        return [
            getattr(self._plugins[option.plugin.name], name)
            for option in tier
            if self._plugins[option.plugin.name].offers(name) and (switch is None or option.switches[switch])
        ]

    # --- order ------------------------------------------------------------------------------------------------------

    def job_before(self, left: Job, right: Job) -> bool:
        """Whether a group goes before another; the older one, if plugins see no difference."""
        for compare in self._flat["job_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return left.key < right.key if left.created == right.created else left.created < right.created

    def line(self, queue: Queue) -> PriorityQueue[Job] | KeyedQueue[Job]:
        """Give an empty line for the groups of a queue; only pods of a group that has left it may be moved.

        With keys a line of many groups is sorted several times as fast as by comparisons.
        """
        keys = self._job_keys
        if not self._quick or (keys is None and not queue.fifo):
            return PriorityQueue(self.order_in(queue))
        if queue.fifo or keys is None:
            return KeyedQueue(_age)
        return KeyedQueue(lambda job: (*[key(job) for key in keys], job.created, job.key))

    def order_in(self, queue: Queue) -> Callable[[Job, Job], bool]:
        """Give the order of a queue's groups: that of plugins, or by priority and age in a strict queue."""
        return _older if queue.fifo else self.job_before

    def queue_before(self, left: Queue, right: Queue) -> bool:
        """Whether a queue goes before another; the older one, if plugins see no difference."""
        for compare in self._flat["queue_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return left.name < right.name if left.created == right.created else left.created < right.created

    def task_before(self, left: Task, right: Task) -> bool:
        """Whether a pod goes before another of its group."""
        for compare in self._flat["task_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return precedes(left, right)

    def subjob_before(self, left: SubJob, right: SubJob) -> bool:
        """Whether a sub-group goes before another."""
        for compare in self._flat["subjob_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        if left.match_index != right.match_index:
            return left.match_index < right.match_index
        return left.uid < right.uid

    def victim_queue_before(self, left: Queue, right: Queue, asking: Queue) -> bool:
        """Whether a queue is reclaimed from before another."""
        for compare in self._flat["victim_queue_order"]:
            difference = compare(left, right, asking)
            if difference:
                return bool(difference < 0)
        return not self.queue_before(left, right)

    def victims_in_order(self, victims: Iterable[Task], asking: Task) -> PriorityQueue[Task]:
        """Give victims in eviction order."""
        asking_job = self._jobs[asking.job]

        def before(left: Task, right: Task) -> bool:
            if left.job == right.job:
                return not self.task_before(left, right)
            one, other = self._jobs[left.job], self._jobs[right.job]
            if one.queue != other.queue:
                queues = self._queues
                return self.victim_queue_before(queues[one.queue], queues[other.queue], queues[asking_job.queue])
            for compare in self._flat["job_order"]:
                difference = compare(one, other)
                if difference:
                    return bool(difference > 0)
            # Groups that plugins find equal are not ordered by age: their pods are compared.
            return not self.task_before(left, right)

        return PriorityQueue(before, list(victims))

    # --- groups and queues ------------------------------------------------------------------------------------------

    def valid(self, job: Job) -> bool:
        """Whether a group can be scheduled at all."""
        return all(check(job) is None for check in self._flat["job_valid"])

    def ready(self, job: Job) -> bool:
        """Whether a group may be bound."""
        return all(check(job) for check in self._flat["job_ready"])

    def pipelined(self, job: Job) -> bool:
        """Whether a group may be pipelined."""
        return self._voted("job_pipelined", job)

    def starving(self, job: Job) -> bool:
        """Whether a group may preempt others: the first tier that does not abstain decides."""
        for tier in self._tiers["job_starving"]:
            if tier:
                return all(check(job) for check in tier)
        return False

    def subjob_ready(self, job: Job, subjob: SubJob) -> bool:
        """Whether a sub-group may be bound."""
        return all(check(subjob) for check in self._flat["subjob_ready"]) if job.policies else self.ready(job)

    def subjob_pipelined(self, job: Job, subjob: SubJob) -> bool:
        """Whether a sub-group may be pipelined."""
        return self._voted("subjob_pipelined", subjob) if job.policies else self.pipelined(job)

    def enqueueable(self, job: Job) -> bool:
        """Whether a group may be enqueued; `kept_out` names the plugin that rejects it."""
        known = self._rejected.get(_need(job)) if self._admits_by_need else None
        if known is not None:
            self.kept_out[job.key] = known
            return False
        for tier in self._tiers["job_enqueueable"]:
            permitted = False
            for name, ask in tier_names(tier):
                vote = ask(job)
                if vote is Vote.REJECT:
                    self.kept_out[job.key] = name
                    if self._admits_by_need:
                        self._rejected[_need(job)] = name
                    return False
                permitted |= vote is Vote.PERMIT
            if permitted:
                return True
        return True

    def needed(self, job: Job) -> bool:
        """Whether a group is enqueued that only lacks idle resources."""
        return any(ask(job) for ask in self._flat["job_needed"])

    def refused(self, job: Job) -> None:
        """Tell plugins that a group found no places."""
        for tell in self._flat["job_refused"]:
            tell(job)

    def enqueued(self, job: Job) -> None:
        """Tell plugins that a group was enqueued."""
        for tell in self._flat["job_enqueued"]:
            tell(job)

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has reached its deserved share."""
        return any(check(queue) for check in self._flat["overused"])

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether a queue may give a pod what it asks for."""
        return all(check(queue, task) for check in self._flat["allocatable"])

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may reclaim from others for these pods."""
        return all(check(queue, tasks) for check in self._flat["preemptive"])

    def _voted(self, name: str, subject: Job | SubJob) -> bool:
        for tier in self._tiers[name]:
            permitted = False
            for ask in tier:
                vote = ask(subject)
                if vote is Vote.REJECT:
                    return False
                permitted |= vote is Vote.PERMIT
            if permitted:
                return True
        return True

    # --- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        """Choose victims for a pod of the same queue."""
        return self._agreed("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        """Choose victims for a pod of another queue."""
        return self._agreed("reclaimable", reclaimer, candidates)

    def evictable(self, kind: Eviction, candidates: list[Task]) -> list[Task]:
        """Choose victims that are evicted with their gang."""
        return self._agreed("evictable", kind, candidates)

    def _agreed(self, name: str, asking: Task | Eviction, candidates: list[Task]) -> list[Task]:
        for tier in self._tiers[name]:
            victims: Victims = None
            for choose in tier:
                chosen: Victims = choose(asking, candidates)
                if chosen is None:
                    continue
                if not chosen:
                    victims = None
                    break
                if victims is None:
                    victims = chosen
                else:
                    uids = {task.uid for task in chosen}
                    victims = [task for task in victims if task.uid in uids] or None
            if victims is not None:
                return victims
        return []

    def victim_tasks(self, running: list[Task]) -> list[Task]:
        """Choose pods to evict independent of any preemptor: the first tier that names some decides."""
        for tier in self._tiers["victim_tasks"]:
            found: dict[str, Task] = {}
            for choose in tier:
                found.update({task.uid: task for task in choose(running)})
            if found:
                return list(found.values())
        return []


def _age(job: Job) -> tuple[int, str, str]:
    return -job.priority, job.created, job.key


def _older(left: Job, right: Job) -> bool:
    return _age(left) < _age(right)


def _need(job: Job) -> tuple[Any, ...]:
    need = job.min_resources
    figures = () if need is None else (need.cpu, need.memory, *need.others.items())
    return job.queue, job.namespace, *figures


def _has_key(plugin: BatchPlugin) -> bool:
    return type(plugin).job_key is not BatchPlugin.job_key


def tier_names(tier: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Give methods of plugins with the names of their plugins."""
    return ((method.__self__.name, method) for method in tier)
