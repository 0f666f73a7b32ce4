"""resourcequota: a group is let in if what it needs fits the quotas of its namespace."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rota.api.quantities import parse
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Vote
from rota.scheduler.batch.sessions import Session

_Nanos = dict[str, int]


class ResourceQuota(BatchPlugin):
    """Admission by quotas."""

    name: ClassVar[str] = "resourcequota"

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._quotas = session.state.quotas
        #: By namespace, what was let in during this session.
        self._admitted: dict[str, _Nanos] = {}

    def job_enqueueable(self, job: Job) -> Vote:
        """Check every quota of the namespace."""
        if job.min_resources is None or job.namespace not in self._quotas:
            return Vote.PERMIT
        wanted = _nanos((job.group.get("spec") or {}).get("minResources"))
        admitted = self._admitted.get(job.namespace, {})
        for hard, used in self._quotas[job.namespace]:
            limits, taken = _nanos(hard), _nanos(used)
            for name in wanted.keys() & limits.keys():
                if taken.get(name, 0) + admitted.get(name, 0) + wanted[name] > limits[name]:
                    return Vote.REJECT
        self._admitted[job.namespace] = {
            name: admitted.get(name, 0) + wanted.get(name, 0) for name in {**admitted, **wanted}
        }
        return Vote.PERMIT


def _nanos(quantities: Mapping[str, Any] | None) -> _Nanos:
    return {name: parse(str(quantity)).nanos for name, quantity in (quantities or {}).items()}
