"""Groups for which a session has nothing to decide: all their pods have nodes or have ended.

They are most groups of a large cluster. Their pods may still be chosen as victims, and what they use counts for their
queues. `QuietGroups` keeps these sums between passes, so that a pass looks at the other groups only. Amounts are whole
numbers (thousandths of a core, bytes, pods), so a sum that was changed often equals one that is computed anew.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.statuses import ALLOCATED, PodGroupPhase, TaskStatus

_PHASES: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED, PodGroupPhase.UNKNOWN})
#: A group with a pod in one of these states is not quiet.
_UNDECIDED: Final = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def is_quiet(job: Job) -> bool:
    """Whether a session has nothing to decide for a group."""
    return job.phase in _PHASES and not any(status in job.tasks for status in _UNDECIDED)


def counts_nothing(job: Job) -> bool:
    """Whether a group uses nothing and may ask for nothing yet: its queue has not let it in, and it has no pods."""
    return job.pending and not job.members


def allocated(job: Job) -> Amounts:
    """Add up what the pods of a group use."""
    result = Amounts()
    for status in ALLOCATED:
        for task in job.of(status).values():
            result.add(task.request)
    return result


def waiting_share(job: Job) -> Amounts:
    """Give what a group that was let in may still ask for."""
    if job.min_resources is None:
        return Amounts()
    running = job.phase is PodGroupPhase.RUNNING and job.count(ALLOCATED) >= job.min_available
    if job.phase is PodGroupPhase.INQUEUE or running:
        return job.without_gated(job.still_inqueue())
    return Amounts()


class Sum:
    """Amounts that parts are added to and taken from; it has the dimensions that some part has."""

    __slots__ = ("_parts", "amounts")

    def __init__(self) -> None:
        self.amounts: Final = Amounts()
        #: By dimension, the number of parts that have it.
        self._parts: Final[dict[str, int]] = {}

    def add(self, part: Amounts) -> None:
        """Count a part in."""
        self.amounts.add(part)
        for name in part.others:
            self._parts[name] = self._parts.get(name, 0) + 1

    def remove(self, part: Amounts) -> None:
        """Count a part out."""
        self.amounts.sub(part)
        for name in part.others:
            self._parts[name] -= 1
            if not self._parts[name]:
                del self._parts[name], self.amounts.others[name]


@dataclass(slots=True)
class QuietSums:
    """What the quiet groups of one queue count for."""

    groups: int = 0
    #: What they use; they ask for nothing more.
    allocated: Sum = field(default_factory=Sum)
    #: What they may still ask for, because they use less than their minimum.
    inqueue: Sum = field(default_factory=Sum)
    #: What they use beyond their minimum.
    elastic: Sum = field(default_factory=Sum)


class _Part(NamedTuple):
    """What one group counts for."""

    queue: str
    allocated: Amounts
    inqueue: Amounts
    elastic: Amounts


class QuietGroups:
    """The quiet groups of a cluster, and their sums by queue."""

    def __init__(self) -> None:
        self.sums: Final[dict[str, QuietSums]] = {}
        self._parts: Final[dict[str, _Part]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._parts

    def add(self, job: Job) -> None:
        """Count a quiet group in."""
        part = _Part(job.queue, allocated(job), waiting_share(job), job.elastic())
        self._parts[job.key] = part
        sums = self.sums.setdefault(part.queue, QuietSums())
        sums.groups += 1
        sums.allocated.add(part.allocated)
        sums.inqueue.add(part.inqueue)
        sums.elastic.add(part.elastic)

    def discard(self, key: str) -> None:
        """Count a group out, if it is counted."""
        part = self._parts.pop(key, None)
        if part is None:
            return
        sums = self.sums[part.queue]
        sums.groups -= 1
        if not sums.groups:
            del self.sums[part.queue]
            return
        sums.allocated.remove(part.allocated)
        sums.inqueue.remove(part.inqueue)
        sums.elastic.remove(part.elastic)

    def allocated_now(self, jobs: Mapping[str, Job], moved: Collection[str]) -> dict[str, Amounts]:
        """Give what the quiet groups of each queue use, after a session moved pods of some of them."""
        found = {name: sums.allocated.amounts.copy() for name, sums in self.sums.items()}
        for key in moved:
            part = self._parts.get(key)
            if part is not None:
                found[part.queue].sub(part.allocated).add(jobs[key].allocated)
        return found


def split(jobs: Mapping[str, Job]) -> tuple[dict[str, Job], dict[str, QuietSums]]:
    """Give the groups that are not quiet, and the sums of those that are."""
    active, quiet = {}, QuietGroups()
    for key, job in jobs.items():
        if is_quiet(job):
            quiet.add(job)
        else:
            active[key] = job
    return active, quiet.sums
