"""proportion: queues share the cluster by weight, within what they ask for, may have and are guaranteed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import Amounts, exceeded, share
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Trial, Victims, Vote
from rota.scheduler.batch.plugins import shares
from rota.scheduler.batch.plugins.shares import Ledger
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task


class Proportion(BatchPlugin):
    """Deserved shares by weight."""

    name: ClassVar[str] = "proportion"
    admits_by_need: ClassVar[bool] = True

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._session = session
        self._ledgers: dict[str, Ledger] = {}
        self._trial: dict[str, dict[str, Ledger]] = {}

    def open(self) -> None:
        """Count every queue that has groups, and divide the cluster."""
        session = self._session
        guaranteed = amounts.total(queue.guarantee for queue in session.queues.values())

        def ledger_of(name: str) -> Ledger:
            ledger = self._ledgers.get(name)
            if ledger is None:
                queue = session.queues[name]
                ledger = self._ledgers[name] = Ledger(queue, guarantee=queue.guarantee)
                ledger.limit = shares.flat_limit(queue, session.total, guaranteed)
            return ledger

        for name, sums in session.quiet.items():
            ledger_of(name).take_in_quiet(sums)
        for job in session.active.values():
            ledger_of(job.queue).take_in(job)
        divide(self._ledgers, session.total)

    def queue_order(self, left: Queue, right: Queue) -> float:
        """The higher priority first, then the smaller share."""
        if left.priority != right.priority:
            return right.priority - left.priority
        one, other = self._ledgers[left.name].share, self._ledgers[right.name].share
        return (one > other) - (one < other)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """Take from queues that have more than they deserve, until they have not."""
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            name = self._session.jobs[task.job].queue
            ledger = self._ledgers[name]
            allocated = left.setdefault(name, ledger.allocated.copy())
            if not allocated.fits(ledger.deserved):
                allocated.sub(task.request)
                victims.append(task)
        return victims

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has all that it deserves."""
        ledger = self._ledgers[queue.name]
        return ledger.deserved.fits(ledger.allocated)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether a queue that is open would stay within what it deserves."""
        return self._within(queue, task.request)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """The same for several pods."""
        return self._within(queue, amounts.total(task.request for task in tasks))

    def _within(self, queue: Queue, wanted: Amounts) -> bool:
        ledger = self._ledgers[queue.name]
        return queue.open and not ledger.allocated.copy().add(wanted).excess_on(ledger.deserved, wanted)

    def job_enqueueable(self, job: Job) -> Vote:
        """Let a group into an open queue if what it needs is within what the queue may have."""
        queue, ledger = self._session.queues[job.queue], self._ledgers[job.queue]
        if not queue.open:
            return Vote.REJECT
        if job.min_resources is None:
            return Vote.PERMIT
        wanted = job.minimum()
        would = wanted.copy().add(ledger.allocated).add(ledger.inqueue).sub(ledger.elastic)
        if would.excess_on(ledger.limit, wanted):
            return Vote.REJECT
        return Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count what a group that was let in needs."""
        if job.min_resources is not None:
            self._ledgers[job.queue].inqueue.add(job.without_gated(job.minimum()))

    def pre_predicate(self, task: Task) -> str | None:
        """Remember the figures, for trials on this pod's behalf."""
        self._trial = {task.uid: {}}
        return None

    def trial(self, task: Task, row: int) -> Trial:
        """In trials, what leaving pods give back counts."""
        known = task.uid in self._trial
        return _ShareTrial(self._session, {name: each.copy() for name, each in self._ledgers.items()}, known=known)

    def on_allocate(self, task: Task) -> None:
        """Count a pod in."""
        ledger = self._ledgers[self._session.jobs[task.job].queue]
        ledger.allocated.add(task.request)
        update_share(ledger)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        ledger = self._ledgers[self._session.jobs[task.job].queue]
        ledger.allocated.sub(task.request)
        update_share(ledger)

    def report(self) -> Mapping[str, Any]:
        """Give the figures of all queues."""
        return shares.report(self._ledgers)


class _ShareTrial(Trial):
    def __init__(self, session: Session, ledgers: dict[str, Ledger], *, known: bool) -> None:
        self._session, self._ledgers, self._known = session, ledgers, known

    def remove(self, other: Task) -> bool:
        if self._known:
            self._ledgers[self._session.jobs[other.job].queue].allocated.sub(other.request)
        return self._known

    def add(self, other: Task) -> bool:
        if self._known:
            self._ledgers[self._session.jobs[other.job].queue].allocated.add(other.request)
        return self._known

    def allocatable(self, queue: Queue, task: Task) -> bool:
        ledger = self._ledgers[queue.name]
        would = ledger.allocated.copy().add(task.request)
        return self._known and not would.excess_on(ledger.deserved, task.request)


def divide(ledgers: Mapping[str, Ledger], total: Amounts) -> None:
    """Divide the cluster by weight: what a queue cannot use goes to the others, round by round."""
    remaining, met = total.copy(), set[str]()
    while True:
        weights = sum(ledger.queue.weight for name, ledger in ledgers.items() if name not in met)
        if weights == 0:
            return
        before, gained, lost = remaining.copy(), Amounts(), Amounts()
        for name, ledger in ledgers.items():
            if name in met:
                continue
            old = ledger.deserved.copy()
            ledger.deserved.add(remaining.copy().scale(ledger.queue.weight / weights))
            ledger.deserved.cap(ledger.limit).cap(ledger.request, missing_is_zero=True)
            ledger.deserved = amounts.maximum(ledger.deserved, ledger.guarantee)
            update_share(ledger)
            if ledger.request.fits(ledger.deserved) or ledger.deserved == old:
                met.add(name)
            gained.add(exceeded(ledger.deserved, old))
            lost.add(exceeded(old, ledger.deserved))
        remaining = exceeded(remaining.copy().add(lost), gained)
        if remaining.empty or remaining == before:
            return


def update_share(ledger: Ledger) -> None:
    """Work out the largest part that a queue has of what it deserves."""
    deserved, allocated = ledger.deserved, ledger.allocated
    ledger.share = max((share(allocated.get(name), deserved.get(name)) for name in deserved.names()), default=0.0)
