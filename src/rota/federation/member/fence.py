"""The Lease of an agent, and what follows when it is not renewed: exclusive workloads of the member are stopped.

The time counts from the moment when the last successful renewal was sent, so the control plane, which counts from the
moment when it saw it, never believes the fence closed before it is. An agent that has just started has renewed nothing:
if its first attempt fails, it stops exclusive workloads at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rota.api import errors, meta, times
from rota.client import discovery
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Propagation, Selection
from rota.federation import kinds, object_names
from rota.federation.failover import exclusive
from rota.federation.works import manifests
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

#: T1: after how long without renewal exclusive workloads are stopped.
FENCE_AFTER_S: Final = 60.0
#: Interval of renewals.
RENEW_EVERY_S: Final = 10.0
#: How long the start of an exclusive workload may take; less than the margin of the control plane.
START_S: Final = 10.0
#: How long a renewal may take; then it has failed.
_PATIENCE_S: Final = 5.0
_LEASE_S: Final = 40
_STOP_AGAIN_S: Final = 1.0
_EXCLUSIVE: Final = Selection(labels=f"{exclusive.EXCLUSIVE}=true,{manifests.MANAGED}=true")
#: Groups that are asked first, because most workloads are there.
_WORKLOADS: Final = frozenset({"apps", "batch", ""})
_WORK_SPACE: Final = "work.karmada.io/namespace"


class FenceClosed(Exception):
    """The Lease has not been renewed in time, so exclusive workloads may not be started."""


class Fence:
    """Renews the Lease of one cluster, and guards the exclusive workloads of that member."""

    def __init__(
        self,
        control: Client,
        member: Client,
        cluster: str,
        *,
        clock: Clock,
        renew_every_s: float = RENEW_EVERY_S,
        fence_after_s: float = FENCE_AFTER_S,
    ) -> None:
        self._control: Final = control.with_settings(retry=False, timeout_s=min(_PATIENCE_S, fence_after_s / 2))
        self._member: Final = member
        self._cluster: Final = cluster
        self._space: Final = object_names.execution_space(cluster)
        self._clock: Final = clock
        self._renew_every_s: Final = renew_every_s
        self._fence_after_s: Final = fence_after_s
        #: Until when exclusive workloads may run, by the monotonic clock.
        self._open_until = float("-inf")
        self._tried: Final = asyncio.Event()
        #: Held while an exclusive object is applied, and while such objects are deleted.
        self._lock: Final = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether exclusive workloads may run."""
        return self._clock.monotonic() < self._open_until

    @contextlib.asynccontextmanager
    async def starting(self, work: str) -> AsyncIterator[None]:
        """Start an exclusive workload inside this block: the Lease is valid, and the Work is still wanted.

        The Work is read from the server after the renewal, so one that was deleted during a partition is not started.
        """
        async with self._lock:
            if not self.is_open:
                raise FenceClosed(f"the Lease of cluster {self._cluster} is not renewed")
            fresh = await self._control.get(kinds.WORKS, work, namespace=self._space)
            if meta.is_deleting(fresh) or not self.is_open:
                raise FenceClosed(f"Work {work} is being deleted, or the Lease has expired meanwhile")
            yield

    async def renew(self) -> None:
        """Renew the Lease until cancelled."""
        while True:
            started = self._clock.monotonic()
            if await self._renewed():
                self._open_until = started + self._fence_after_s
            self._tried.set()
            await self._clock.sleep(max(0.0, started + self._renew_every_s - self._clock.monotonic()))

    async def guard(self) -> None:
        """Stop exclusive workloads while the fence is closed, until cancelled."""
        await self._tried.wait()
        while True:
            remaining_s = self._open_until - self._clock.monotonic()
            if remaining_s > 0:
                await self._clock.sleep(remaining_s)
                continue
            try:
                async with self._lock:
                    await self._stop()
            except (errors.ApiError, TransportError, OSError, TimeoutError) as error:
                log.warning("exclusive workloads are not stopped yet", cluster=self._cluster, error=str(error))
            await self._clock.sleep(_STOP_AGAIN_S)

    async def _renewed(self) -> bool:
        now = times.format_micro_time(self._clock.now())
        spec = {"holderIdentity": self._cluster, "leaseDurationSeconds": _LEASE_S, "renewTime": now}
        marks = {exclusive.FENCE_AFTER: f"{self._fence_after_s:g}"}
        patch = {"metadata": {"annotations": marks}, "spec": spec}
        try:
            await self._clock.wait_for(
                self._control.patch(kinds.LEASES, self._cluster, patch, namespace=kinds.CLUSTER_NAMESPACE),
                min(_PATIENCE_S, self._fence_after_s / 2),
            )
        except (errors.ApiError, TransportError, OSError, TimeoutError) as error:
            log.warning("the Lease is not renewed", cluster=self._cluster, error=f"{type(error).__name__}: {error}")
            return False
        return True

    async def _stop(self) -> None:
        """Delete every exclusive object of this federation in the member, whatever its kind."""
        served = (await discovery.discover(self._member)).preferred()
        for kind in sorted(served, key=lambda one: one.group not in _WORKLOADS):
            if "delete" not in kind.verbs or "list" not in kind.verbs:
                continue
            try:
                found = (await self._member.list(kind, selection=_EXCLUSIVE)).items
            except (errors.NotFound, errors.MethodNotAllowed):
                continue
            for obj in found:
                if meta.is_deleting(obj) or meta.annotations(obj).get(_WORK_SPACE) != self._space:
                    continue
                log.warning("an exclusive workload is stopped", cluster=self._cluster, name=meta.qualified_name(obj))
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    await self._member.delete(
                        kind,
                        meta.name(obj),
                        namespace=meta.namespace(obj),
                        propagation=Propagation.FOREGROUND,
                        uid=meta.uid(obj),
                    )
