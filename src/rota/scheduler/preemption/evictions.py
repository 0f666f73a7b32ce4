"""Eviction of the victims that PostFilter chose, and the nomination of the preemptor.

Every victim is evicted through the API, so that its disruption budget is charged if it allows the eviction. If it does
not, the pod is deleted all the same, as kube-scheduler does after it has looked for victims without a PDB violation.
All victims but one are evicted concurrently and the last one after them, so that the preemptor is woken when its room
is complete. Pods that wait for their binding lose it without an API call.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from rota.api import errors, times
from rota.client import pods as pod_calls
from rota.client.events.recorder import EventRecorder
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.status import object_references

log = logs.get(__name__)

REASON: Final = "PreemptionByScheduler"


class EvictionsDone(Protocol):
    """Is called when the evictions for a preemptor have ended."""

    def __call__(self, preemptor: PodInfo, victims: Sequence[PodInfo], /, *, failed: bool) -> None:
        """`victims` are those that were evicted by a request."""


class Evictions:
    """Evictions in progress, by preemptor."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        *,
        clock: Clock,
        revoke: Callable[[str, str], bool],
        ended: EvictionsDone,
    ) -> None:
        """`revoke(uid, why)` revokes a placement that is not bound yet; `ended` is called once per preemptor."""
        self._client: Final = client
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._revoke: Final = revoke
        self._ended: Final = ended
        self._under_way: Final[dict[str, asyncio.Task[None]]] = {}

    def start(self, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        """Evict the victims."""
        task = asyncio.get_running_loop().create_task(self._run(preemptor, node_name, victims))
        self._under_way[preemptor.uid] = task

    async def close(self) -> None:
        """Wait for the evictions in progress."""
        if self._under_way:
            await asyncio.wait(set(self._under_way.values()))

    async def _run(self, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        evicted: Sequence[PodInfo] | None = None
        try:
            evicted = await self._make_room(preemptor, node_name, victims)
        except Exception as error:
            log.exception("preemption failed", error=error, pod=preemptor.key, node=node_name)
        finally:
            if self._under_way.get(preemptor.uid) is asyncio.current_task():
                del self._under_way[preemptor.uid]
        self._ended(preemptor, evicted or (), failed=evicted is None)

    async def _make_room(
        self, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]
    ) -> Sequence[PodInfo] | None:
        """Evict the victims; returns those that needed a request, or None if some of them stay."""
        why = f"Preempted by pod {preemptor.uid} on node {node_name}"
        log.info("preempting", pod=preemptor.key, node=node_name, victims=[victim.key for victim in victims])
        left = [victim for victim in victims if not self._revoked(victim, why)]
        try:
            await asyncio.gather(*(self._send_away(each, preemptor, why) for each in left[:-1]))
            for last in left[-1:]:
                await self._send_away(last, preemptor, why)
        except (errors.ApiError, TransportError) as error:
            log.warning("preemption failed", pod=preemptor.key, node=node_name, error=error)
            return None
        return left

    def _revoked(self, victim: PodInfo, why: str) -> bool:
        if not self._revoke(victim.uid, why):
            return False
        self._recorder.event(object_references.of_pod(victim), "Normal", "Preempted", why, action="Preempting")
        return True

    async def _send_away(self, victim: PodInfo, preemptor: PodInfo, why: str) -> None:
        try:
            if not await self._evicted(victim):
                await self._mark(victim, preemptor)
                await self._client.delete(PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
        except (errors.NotFound, errors.Conflict):
            # Deleted already, or replaced by another pod of that name.
            return
        self._recorder.event(object_references.of_pod(victim), "Normal", "Preempted", why, action="Preempting")
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            # The eviction sets a condition of its own; the preemptor is the better reason, if the pod still exists.
            await self._mark(victim, preemptor)

    async def _mark(self, victim: PodInfo, preemptor: PodInfo) -> None:
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": REASON,
            "message": f"{preemptor.shape.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": times.format_time(self._clock.now()),
        }
        await self._client.patch(
            PODS,
            victim.name,
            {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}},
            type=PatchType.STRATEGIC,
            namespace=victim.namespace,
            subresource="status",
        )

    async def _evicted(self, victim: PodInfo) -> bool:
        """Evict a pod; False if its budget does not allow that."""
        # A refusal by a budget asks the client to retry later; preemption deletes the pod instead.
        client = self._client.with_settings(retry=False)
        try:
            await pod_calls.evict(client, victim.name, namespace=victim.namespace, uid=victim.uid)
        except (errors.TooManyRequests, errors.InternalError, errors.Forbidden, errors.MethodNotAllowed) as refusal:
            # Also where a stock role lets schedulers delete pods but not evict them.
            log.info("budget overruled", pod=victim.key, refusal=refusal.message)
            return False
        return True
