"""capacity: queues have figures of their own (deserved, capability, guarantee), beside each other or in a tree.

A queue may use more than it deserves, up to its capability, as long as no queue that deserves it asks. In a tree, only
leaves hold groups; what a leaf uses counts for all queues above it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from rota.scheduler.batch import amounts
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import PODS, UNLIMITED, Amounts, exceeded, maximum, share, shared
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Trial, Victims, Vote
from rota.scheduler.batch.plugins import shares
from rota.scheduler.batch.plugins.shares import Ledger
from rota.scheduler.batch.queues import ROOT, Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task


class Capacity(BatchPlugin):
    """Queues with figures of their own."""

    name: ClassVar[str] = "capacity"
    admits_by_need: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, Argument]] = {"ancestorReclaimLevel": Argument(args.integer, 0)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._tree: Final = hierarchy
        self._level: Final[int] = arguments["ancestorReclaimLevel"]
        self._ledgers: dict[str, Ledger] = {}
        #: Whether the queues make sense; if not, nothing is placed in any of them.
        self._sound = True
        self._prepared: str | None = None

    def open(self) -> None:
        """Count every queue."""
        if self._tree:
            self._sound = self._open_tree()
        else:
            self._open_flat()

    def offers(self, method: str) -> bool:
        """Queues are compared only where they make sense, and by kinship only in a tree."""
        if method == "queue_order" and not self._sound:
            return False
        if method == "victim_queue_order" and not (self._tree and self._sound):
            return False
        return super().offers(method)

    def _open_flat(self) -> None:
        session = self._session
        guaranteed = amounts.total(queue.guarantee for queue in session.queues.values())

        def ledger_of(name: str) -> Ledger:
            ledger = self._ledgers.get(name)
            if ledger is None:
                queue = session.queues[name]
                ledger = self._ledgers[name] = Ledger(queue, queue.deserved.copy(), guarantee=queue.guarantee)
                ledger.limit = shares.flat_limit(queue, session.total, guaranteed)
            return ledger

        for name, sums in session.quiet.items():
            ledger_of(name).take_in_quiet(sums)
        for job in session.active.values():
            ledger_of(job.queue).take_in(job)
        for ledger in self._ledgers.values():
            ledger.deserved = maximum(ledger.deserved.cap(ledger.limit), ledger.guarantee)
            update_share(ledger)

    def _open_tree(self) -> bool:
        session = self._session
        for queue in session.queues.values():
            if queue.name not in self._ledgers:
                self._ledgers[queue.name] = _ledger(queue)
                if not self._climb(queue, ()):
                    return False
        if any(self._ledgers[name].children for name in session.queues_in_use()):
            return False
        for name, sums in session.quiet.items():
            for each in self._with_ancestors(name):
                each.take_in_quiet(sums)
        for job in session.active.values():
            for each in self._with_ancestors(job.queue):
                each.take_in(job)
        root = self._ledgers.get(ROOT)
        if root is None:
            return False
        if root.capability.empty:
            root.capability = Amounts(UNLIMITED, UNLIMITED, dict.fromkeys(session.total.others, UNLIMITED))
        root.limit = root.capability
        self._descend(root)
        for ledger in self._ledgers.values():
            update_share(ledger)
        return True

    def _with_ancestors(self, name: str) -> list[Ledger]:
        ledger = self._ledgers[name]
        return [ledger, *(self._ledgers[above] for above in ledger.ancestors)]

    def _climb(self, queue: Queue, path: tuple[str, ...]) -> bool:
        """Find the queues above one; no if there is a circle, or a parent that does not exist."""
        if queue.name == ROOT:
            return True
        parent = self._session.queues.get(queue.parent or ROOT)
        if queue.name in path or parent is None:
            return False
        if parent.name not in self._ledgers:
            self._ledgers[parent.name] = _ledger(parent)
            if not self._climb(parent, (*path, queue.name)):
                return False
        above = self._ledgers[parent.name]
        above.children.append(queue.name)
        self._ledgers[queue.name].ancestors = [*above.ancestors, parent.name]
        return True

    def _descend(self, ledger: Ledger) -> None:
        """Work out what the queues below one may have."""
        children = [self._ledgers[name] for name in ledger.children]
        for child in children:
            child.deserved = maximum(child.deserved, child.guarantee)
            own = child.capability
            own.cpu = own.cpu if own.cpu > 0 else ledger.capability.cpu
            own.memory = own.memory if own.memory > 0 else ledger.capability.memory
            for name, amount in ledger.capability.others.items():
                own.others.setdefault(name, amount)
        guaranteed = amounts.total(child.guarantee for child in children)
        if ledger.queue.name == ROOT:
            ledger.guarantee = guaranteed
            ledger.deserved = amounts.total(child.deserved for child in children)
        for child in children:
            child.limit = exceeded(ledger.limit, guaranteed).add(child.guarantee).cap(child.capability)
        for child in children:
            self._descend(child)

    # --- order ------------------------------------------------------------------------------------------------------

    def queue_order(self, left: Queue, right: Queue) -> float:
        """The higher priority first, then leaves, then the smaller share where the paths part."""
        if left.priority != right.priority:
            return right.priority - left.priority
        one, other = self._ledgers[left.name], self._ledgers[right.name]
        if self._tree:
            leaves = not one.children, not other.children
            if leaves[0] != leaves[1]:
                return -1 if leaves[0] else 1
            if leaves[0]:
                level = _kinship(one, other) + 1
                one, other = (
                    self._ledgers[each.ancestors[level]] if level < len(each.ancestors) else each
                    for each in (one, other)
                )
        return _compare(one, other)

    def victim_queue_order(self, left: Queue, right: Queue, asking: Queue) -> float:
        """Near relatives of the queue that asks give first."""
        own = self._ledgers[asking.name]
        return _kinship(self._ledgers[right.name], own) - _kinship(self._ledgers[left.name], own)

    # --- admission --------------------------------------------------------------------------------------------------

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether an open queue, and all above it, would stay within what they may have."""
        return queue.open and self._within(self._ledgers, queue, task)

    def _within(self, ledgers: Mapping[str, Ledger], queue: Queue, task: Task) -> bool:
        if not self._sound:
            return False
        own = ledgers[queue.name]
        if self._tree and own.children:
            return False
        return not any(
            ledger.allocated.copy().add(task.request).excess_on(ledger.limit, task.request)
            for ledger in (own, *(ledgers[name] for name in own.ancestors))
        )

    def job_enqueueable(self, job: Job) -> Vote:
        """Let a group into an open leaf if what it needs is within what the queue and all above it may have."""
        if not self._sound:
            return Vote.REJECT
        queue, own = self._session.queues[job.queue], self._ledgers[job.queue]
        if (self._tree and own.children) or not queue.open:
            return Vote.REJECT
        if job.min_resources is None:
            return Vote.PERMIT
        wanted = job.minimum()
        line = [own, *(self._ledgers[name] for name in own.ancestors)]
        for ledger in line:
            would = wanted.copy().add(ledger.allocated).add(ledger.inqueue).sub(ledger.elastic)
            if would.excess_on(ledger.limit, wanted):
                return Vote.REJECT
        return Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count what a group that was let in needs, for its queue and all above it."""
        if job.min_resources is None or not self._sound:
            return
        own, admitted = self._ledgers[job.queue], job.without_gated(job.minimum())
        for ledger in (own, *(self._ledgers[name] for name in own.ancestors)):
            ledger.inqueue.add(admitted)

    # --- taking from others -----------------------------------------------------------------------------------------

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether an open queue (or one above it, up to the configured level) lacks something that it deserves."""
        if not self._sound or not queue.open:
            return False
        own = self._ledgers[queue.name]
        wanted = amounts.total(task.request for task in tasks)
        would = own.allocated.copy().add(wanted)
        if would.excess_on(own.limit, wanted):
            return False
        if would.some_within(own.deserved, wanted):
            return True
        if not self._tree:
            return False
        for level in range(1, self._level + 1):
            above = self._above(own, level)
            if above is None or above.queue.name == ROOT:
                continue
            if above.allocated.copy().add(wanted).some_within(above.deserved, wanted):
                return True
        return False

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """Take from queues that have more than they deserve, but never what they are guaranteed."""
        if not self._sound:
            return []
        session = self._session
        asking = self._ledgers[session.jobs[reclaimer.job].queue]
        left: dict[str, Amounts] = {}
        victims: list[Task] = []
        ordered = session.victims_in_order(candidates, reclaimer)
        while len(ordered):
            task = ordered.pop()
            ledger = self._ledgers[session.jobs[task.job].queue]
            if not any(name != PODS for name in shared(task.request, reclaimer.request)):
                continue
            allocated = left.setdefault(ledger.queue.name, ledger.allocated.copy())
            if not ledger.guarantee.fits(allocated.copy().sub(task.request)):
                continue
            if not shared(task.request, ledger.deserved):
                if self._guided and self._kin(asking, ledger) and not shared(reclaimer.request, asking.deserved):
                    continue
            elif not allocated.some_above(ledger.deserved, task.request):
                continue
            above = self._eligible_above(asking, ledger, task, left)
            if above is None:
                continue
            for figures in (allocated, *above):
                figures.sub(task.request)
            victims.append(task)
        return victims

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """For gangs of the same queue anything may go; of other queues, what they have beyond what they deserve."""
        if kind is Eviction.GANG_PREEMPT:
            return candidates
        if not self._sound:
            return []
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            ledger = self._ledgers[self._session.jobs[task.job].queue]
            allocated = left.setdefault(ledger.queue.name, ledger.allocated.copy())
            if not ledger.guarantee.fits(allocated.copy().sub(task.request)):
                continue
            if not shared(task.request, ledger.deserved) or allocated.some_above(ledger.deserved, task.request):
                allocated.sub(task.request)
                victims.append(task)
        return victims

    @property
    def _guided(self) -> bool:
        return self._tree and self._level > 0

    def _eligible_above(
        self, asking: Ledger, ledger: Ledger, task: Task, left: dict[str, Amounts]
    ) -> list[Amounts] | None:
        """Give what is left of the queues above that are not shared; None if one of them may not give."""
        found: list[Amounts] = []
        for level in range(1, self._level + 1) if self._guided else ():
            above = self._above(ledger, level)
            if above is None or above.queue.name == ROOT or above is self._above(asking, level):
                continue
            allocated = left.setdefault(above.queue.name, above.allocated.copy())
            found.append(allocated)
            if shared(task.request, above.deserved) and not allocated.some_above(above.deserved, task.request):
                return None
        return found

    def _above(self, ledger: Ledger, level: int) -> Ledger | None:
        return self._ledgers.get(ledger.ancestors[-level]) if 0 < level <= len(ledger.ancestors) else None

    def _kin(self, left: Ledger, right: Ledger) -> bool:
        near = set(left.ancestors[-self._level :]) & set(right.ancestors[-self._level :])
        return bool(near - {ROOT})

    # --- following --------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> str | None:
        """Remember for whom trials are made."""
        self._prepared = task.uid
        return None

    def trial(self, task: Task, row: int) -> Trial:
        """In trials, what leaving pods give back counts."""
        return _CapacityTrial(self, task.uid == self._prepared)

    def ledgers(self) -> dict[str, Ledger]:
        """Give figures that a trial may change."""
        return {name: each.copy() for name, each in self._ledgers.items()}

    def count(self, ledgers: Mapping[str, Ledger], task: Task, sign: int) -> None:
        """Count a pod in or out of its queue and all above."""
        own = ledgers.get(self._session.jobs[task.job].queue)
        if own is None:
            return
        for ledger in (own, *(ledgers[name] for name in own.ancestors)) if self._tree else (own,):
            (ledger.allocated.add if sign > 0 else ledger.allocated.sub)(task.request)
        update_share(own)

    def on_allocate(self, task: Task) -> None:
        """Count a pod in."""
        self.count(self._ledgers, task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        self.count(self._ledgers, task, -1)

    def report(self) -> Mapping[str, Any]:
        """Give the figures of all queues."""
        return shares.report(self._ledgers)

    def within(self, ledgers: Mapping[str, Ledger], queue: Queue, task: Task) -> bool:
        """Whether a queue would stay within what it may have, by other figures."""
        return self._within(ledgers, queue, task)


class _CapacityTrial(Trial):
    def __init__(self, plugin: Capacity, known: bool) -> None:
        self._plugin, self._known = plugin, known
        self._ledgers = plugin.ledgers() if known else {}

    def remove(self, other: Task) -> bool:
        self._plugin.count(self._ledgers, other, -1)
        return self._known

    def add(self, other: Task) -> bool:
        self._plugin.count(self._ledgers, other, 1)
        return self._known

    def allocatable(self, queue: Queue, task: Task) -> bool:
        return self._known and self._plugin.within(self._ledgers, queue, task)


def update_share(ledger: Ledger) -> None:
    """Work out the largest part that a queue has of what it deserves; all, if it deserves nothing."""
    deserved, allocated = ledger.deserved, ledger.allocated
    if deserved.empty:
        ledger.share = 1.0
    else:
        ledger.share = max((share(allocated.get(name), deserved.get(name)) for name in deserved.names()), default=0.0)


def _ledger(queue: Queue) -> Ledger:
    return Ledger(
        queue, queue.deserved.copy(), guarantee=queue.guarantee.copy(), capability=amounts.read(queue.capability)
    )


def _compare(one: Ledger, other: Ledger) -> float:
    if one.share != other.share:
        return -1 if one.share < other.share else 1
    return one.deserved.empty - other.deserved.empty


def _kinship(one: Ledger, other: Ledger) -> int:
    """Give how deep the nearest queue above both is."""
    level = 0
    for position, (left, right) in enumerate(zip(one.ancestors, other.ancestors, strict=False)):
        if left != right:
            break
        level = position
    return level
