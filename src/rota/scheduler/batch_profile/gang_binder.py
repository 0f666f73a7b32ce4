"""Binds groups of pods: all or none.

A group that fits one transaction of Rota's API server is bound by one atomic request. A larger one, and every group on
a stock API server, is bound by a plan: the plan is written on the PodGroup, then the pods are bound in portions, then
the plan is removed. If this process ends in between, the next leader finds the plan (see `binding_plans`).

`submit` expects pods that are assumed in the cache. `ended` is called once per group, when every pod has its result.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.scheduler.batch import binding_plans
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.scheduler.binding import bind_requests
from rota.scheduler.binding.bind_requests import BindRequestQueue
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

#: The largest annotation that is written; the API server's limit for all annotations is 256 KiB.
_LARGEST_PLAN: Final = 200 * 1024


@dataclass(slots=True, eq=False)
class Gang:
    """Pods of one group that get their nodes together."""

    namespace: str
    name: str
    uid: str
    placed: Sequence[tuple[PodInfo, str]]
    #: Whether the group is below its minimum, so that a part of these pods must not stay alone.
    whole: bool
    #: Whether the PodGroup has a plan already.
    planned: bool = False
    #: The result of each pod, by uid.
    results: dict[str, Status] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """namespace/name of the group."""
        return f"{self.namespace}/{self.name}"


class GangBinder:
    """Binds groups."""

    def __init__(
        self,
        client: Client,
        bindings: BindRequestQueue,
        notes: PodStatusWriter,
        *,
        ended: Callable[[Gang], None],
    ) -> None:
        self._client: Final = client
        self._bindings: Final = bindings
        self._notes: Final = notes
        self._ended: Final = ended
        #: Groups that wait for status patches or for their plan.
        self._preparing: Final[dict[asyncio.Task[None], Gang]] = {}
        #: Groups that are being bound, with the number of their requests.
        self._busy: Final[dict[str, int]] = {}

    def busy(self, key: str) -> bool:
        """Whether pods of a group are being bound."""
        return key in self._busy

    def submit(self, gang: Gang) -> None:
        """Bind; does not wait."""
        self._busy[gang.key] = self._busy.get(gang.key, 0) + 1
        waits = any(self._notes.busy(pod.uid) for pod, _ in gang.placed)
        for pod, _ in gang.placed:
            self._notes.forget(pod.uid)
        needs_plan = gang.whole and len(gang.placed) > 1 and not self._atomic(gang) and not gang.planned
        if waits or needs_plan:
            task = asyncio.get_running_loop().create_task(self._prepared(gang, needs_plan=needs_plan))
            self._preparing[task] = gang
            task.add_done_callback(self._is_prepared)
        else:
            self._send(gang)

    async def close(self) -> None:
        """Give up the groups whose bindings were not sent yet: this scheduler may lead no longer."""
        for task in self._preparing:
            task.cancel()
        while self._preparing:
            await asyncio.wait(set(self._preparing))

    async def remove_plan(self, namespace: str, name: str, uid: str) -> None:
        """Remove the plan of a group that is complete or released."""
        await self._write_plan(namespace, name, uid, None)

    def _atomic(self, gang: Gang) -> bool:
        nodes = [node for _, node in gang.placed]
        return self._bindings.batches and bind_requests.fits_transaction(nodes)

    async def _prepared(self, gang: Gang, *, needs_plan: bool) -> None:
        """Wait for status patches in flight, and write the plan."""
        for pod, _ in gang.placed:
            await self._notes.settled(pod.uid)
        if needs_plan:
            plan = binding_plans.encode({pod.name: node for pod, node in gang.placed})
            if len(plan) > _LARGEST_PLAN:
                plan = binding_plans.encode({})
            await self._write_plan(gang.namespace, gang.name, gang.uid, plan)
            gang.planned = True

    def _is_prepared(self, task: "asyncio.Task[None]") -> None:
        """Bind a group that is prepared; one that could not be prepared has failed, whatever the reason."""
        gang = self._preparing.pop(task)
        error = asyncio.CancelledError("the scheduler stopped") if task.cancelled() else task.exception()
        if error is None:
            self._send(gang)
            return
        if isinstance(error, errors.ApiError | TransportError | asyncio.CancelledError):
            log.warning("plan of a group not written", group=gang.key, error=error)
        else:
            log.exception("preparation of a group crashed", error=error, group=gang.key)
        refused = Status(Code.ERROR, (f"the plan of the group cannot be written: {error}",))
        for pod, _ in gang.placed:
            gang.results[pod.uid] = refused
        self._finish(gang)

    async def _write_plan(self, namespace: str, name: str, uid: str, plan: str | None) -> None:
        metadata = {"uid": uid, "annotations": {binding_plans.ANNOTATION: plan}}
        await self._client.patch(POD_GROUPS, name, {"metadata": metadata}, type=PatchType.MERGE, namespace=namespace)

    def _send(self, gang: Gang) -> None:
        together = gang.whole and len(gang.placed) > 1 and self._atomic(gang)
        if together:
            self._bindings.submit_together(
                [(pod, node, partial(self._answered, gang, pod)) for pod, node in gang.placed]
            )
            return
        for pod, node in gang.placed:
            self._bindings.submit(pod, node, partial(self._answered, gang, pod))

    def _answered(self, gang: Gang, pod: PodInfo, status: Status) -> None:
        gang.results[pod.uid] = status
        if len(gang.results) == len(gang.placed):
            self._finish(gang)

    def _finish(self, gang: Gang) -> None:
        left = self._busy[gang.key] - 1
        if left:
            self._busy[gang.key] = left
        else:
            del self._busy[gang.key]
        self._ended(gang)
