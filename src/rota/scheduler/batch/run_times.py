"""How long groups run: by their own estimate, or by earlier runs of the same kind.

A group states an estimate in the annotation `rota.dev/running-estimate`; the Job controller copies `runningEstimate` of
a Job there. Without one, the longest of the last runs of groups counts that have the same namespace, queue and owner,
where numbers at the end of the owner's name are left out (`train-17` and `train-18` are alike).
"""

from collections import deque
from typing import Final

from rota.api.batch import kinds
from rota.api.durations import duration
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.times import seconds

#: So many runs of a kind are kept, and so many kinds.
_RUNS: Final = 10
_KINDS: Final = 10_000


class RunTimes:
    """Run times of groups that have completed."""

    def __init__(self) -> None:
        self._runs: Final[dict[tuple[str, str, str], deque[float]]] = {}

    def completed(self, job: Job, now: float) -> None:
        """Record the run of a group that has just completed."""
        begun = [seconds(task.member.scheduled_at) for task in job.members.values() if task.member.scheduled_at]
        if not begun:
            return
        kind = _kind(job)
        runs = self._runs.pop(kind, None) or deque(maxlen=_RUNS)
        runs.append(max(now - min(begun), 0.0))
        self._runs[kind] = runs
        if len(self._runs) > _KINDS:
            del self._runs[next(iter(self._runs))]

    def estimate(self, job: Job) -> float | None:
        """Give the expected run time in seconds; None if nothing is known."""
        stated = duration(job.annotations.get(kinds.RUNNING_ESTIMATE, ""))
        if stated is not None and stated > 0:
            return stated
        runs = self._runs.get(_kind(job))
        return max(runs) if runs else None


def _kind(job: Job) -> tuple[str, str, str]:
    owners = job.group["metadata"].get("ownerReferences") or ()
    name = next((str(one["name"]) for one in owners if one.get("controller")), job.name)
    parts = name.split("-")
    while len(parts) > 1 and any(letter.isdigit() for letter in parts[-1]):
        parts.pop()
    return job.namespace, job.queue, "-".join(parts)
