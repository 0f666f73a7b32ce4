"""CronJobs of `batch.volcano.sh`: the controller of Kubernetes' CronJobs, with Jobs of the same group."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api.batch import kinds
from rota.client.verbs import Client
from rota.controllers.batch import job_phases
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.cron_jobs.controller import CronJobController
from rota.controllers.cron_jobs.runs import JobKind
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_VERSION: Final = f"{kinds.BATCH}/v1alpha1"
KIND: Final = OwnerKind(api_version=_VERSION, kind="CronJob", target=kinds.CRON_JOBS)


def _state(job: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (job.get("status") or {}).get("state") or {}
    return found


def end_of(job: Mapping[str, Any]) -> str:
    """How a Job has finished, in the words of Kubernetes' Jobs; an aborted one may be resumed."""
    phase = _state(job).get("phase")
    return "Complete" if phase == job_phases.COMPLETED else "Failed" if phase in job_phases.FINISHED else ""


def _completed_at(job: Mapping[str, Any]) -> str:
    return str(_state(job).get("lastTransitionTime") or "") if end_of(job) == "Complete" else ""


JOBS: Final = JobKind(api_version=_VERSION, target=kinds.JOBS, end_of=end_of, completed_at=_completed_at)


class BatchCronJobController(CronJobController):
    """Creates Jobs on schedule."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        super().__init__(client, clock=clock, rng=rng, metrics=metrics, kind=KIND, jobs=JOBS)
