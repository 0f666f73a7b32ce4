"""Deletes finished Jobs after their `ttlSecondsAfterFinished`.

The Job is read again before it is deleted, because its TTL may have been extended without the cache showing it yet.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, Propagation
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

JOBS: Final = ("batch", "v1", "jobs")


def expires_at(job: Mapping[str, Any]) -> float | None:
    """When a Job is deleted; None if it has no TTL or has not finished."""
    patience = job["spec"].get("ttlSecondsAfterFinished")
    if patience is None or meta.is_deleting(job):
        return None
    for kind in ("Complete", "Failed"):
        condition = meta.condition(job, kind)
        if condition is not None and condition.get("status") == "True" and condition.get("lastTransitionTime"):
            return times.parse(condition["lastTransitionTime"]) + float(patience)
    return None


class TtlAfterFinished:
    """Deletes Jobs whose TTL has expired."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "ttl after finished", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._jobs: Final = self._frame.follow(JOBS, self._changed)

    async def run(self) -> None:
        """Delete Jobs until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and expires_at(new) is not None:
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        job = self._jobs.cache.get(key.name, key.namespace)
        if job is None or (due := expires_at(job)) is None:
            return None
        if due > self._clock.now():
            return due - self._clock.now()
        try:
            fresh = await self._client.get(JOBS, key.name, namespace=key.namespace)
            due = expires_at(fresh)
            if due is None or due > self._clock.now():
                return None if due is None else due - self._clock.now()
            log.info("job goes after its time", job=str(key))
            await self._client.delete(
                JOBS,
                key.name,
                namespace=key.namespace,
                propagation=Propagation.FOREGROUND,
                uid=meta.uid(fresh),
                resource_version=str(meta.metadata(fresh).get("resourceVersion", "")),
            )
        except (errors.NotFound, errors.Conflict):
            return None  # gone or changed: the watch reports it
        return None
