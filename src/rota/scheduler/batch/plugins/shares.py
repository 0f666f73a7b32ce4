"""What a queue has, wants and may have: the figures that proportion and capacity keep for every queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import CPU, MEMORY, UNLIMITED, Amounts, exceeded
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.quiet_groups import QuietSums, counts_nothing, waiting_share
from rota.scheduler.batch.statuses import ALLOCATED, TaskStatus

REPORTED: Final = ("deserved", "allocated", "request", "inqueue", "elastic", "limit")


@dataclass(slots=True)
class Ledger:
    """The figures of one queue."""

    queue: Queue
    deserved: Amounts = field(default_factory=Amounts)
    allocated: Amounts = field(default_factory=Amounts)
    #: What its pods have and ask for.
    request: Amounts = field(default_factory=Amounts)
    #: What groups that were let in may still ask for.
    inqueue: Amounts = field(default_factory=Amounts)
    #: What groups have beyond what they need to run.
    elastic: Amounts = field(default_factory=Amounts)
    guarantee: Amounts = field(default_factory=Amounts)
    capability: Amounts = field(default_factory=Amounts)
    #: What it may have at most: its capability, and what others' guarantees leave.
    limit: Amounts = field(default_factory=Amounts)
    share: float = 0.0
    #: Names of the queues above, the root first.
    ancestors: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)

    def take_in(self, job: Job) -> None:
        """Count a group."""
        if counts_nothing(job):
            return
        for status in ALLOCATED:
            for task in job.of(status).values():
                self.allocated.add(task.request)
                self.request.add(task.request)
        for task in job.of(TaskStatus.PENDING).values():
            self.request.add(task.request)
        self.inqueue.add(waiting_share(job))
        self.elastic.add(job.elastic())

    def take_in_quiet(self, sums: QuietSums) -> None:
        """Count the quiet groups of a queue."""
        self.allocated.add(sums.allocated.amounts)
        self.request.add(sums.allocated.amounts)
        self.inqueue.add(sums.inqueue.amounts)
        self.elastic.add(sums.elastic.amounts)

    def copy(self) -> "Ledger":
        """Give figures that a trial may change."""
        return Ledger(
            self.queue,
            self.deserved,
            self.allocated.copy(),
            self.request,
            self.inqueue,
            self.elastic,
            self.guarantee,
            self.capability,
            self.limit,
            self.share,
            self.ancestors,
            self.children,
        )


def flat_limit(queue: Queue, total: Amounts, guaranteed: Amounts) -> Amounts:
    """Give what a queue beside others may have at most."""
    limit = exceeded(total, guaranteed).add(queue.guarantee)
    if queue.capability:
        capability = amounts.read(queue.capability)
        capability.cpu = capability.cpu if capability.cpu > 0 else UNLIMITED
        capability.memory = capability.memory if capability.memory > 0 else UNLIMITED
        limit.cap(capability)
    return limit


def report(ledgers: Mapping[str, Ledger]) -> dict[str, Any]:
    """Give the figures of all queues as plain data."""
    return {
        name: {"share": ledger.share, **{field: _plain(getattr(ledger, field)) for field in REPORTED}}
        for name, ledger in ledgers.items()
    }


def _plain(figures: Amounts) -> dict[str, float]:
    return {CPU: figures.cpu, MEMORY: figures.memory, **figures.others}
