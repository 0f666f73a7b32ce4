"""Evicts pods that a pass chose: the reason is written on the pod, then it is evicted, or deleted despite its budget.

Volcano deletes victims and looks at budgets only with its plugin `pdb`; here a budget that allows the eviction is
charged for it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final

from rota.api import errors, times
from rota.client import pods as pod_calls
from rota.client.events.recorder import EventRecorder
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.backoff import Policy
from rota.kit.clock import Clock
from rota.scheduler.status import object_references

log = logs.get(__name__)

#: The reason of the condition DisruptionTarget, as of every scheduler.
REASON: Final = "PreemptionByScheduler"
#: The cause of a refusal by a budget.
_BUDGET: Final = "DisruptionBudget"
#: How often a server that has too much to do is asked, and the pauses in between.
_TRIES: Final = 6
_PAUSES: Final = Policy(initial_s=0.5, cap_s=8.0)
#: Concurrent evictions.
_AT_ONCE: Final = 16


class VictimEvictions:
    """Evictions in progress."""

    def __init__(
        self, client: Client, recorder: EventRecorder, *, clock: Clock, failed: Callable[[PodInfo], None]
    ) -> None:
        """`failed` is called for pods that could not be evicted."""
        self._client: Final = client.with_settings(retry=False)
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._failed: Final = failed
        self._slots: Final = asyncio.Semaphore(_AT_ONCE)
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def start(self, pod: PodInfo, why: str) -> None:
        """Evict a pod; does not wait."""
        task = asyncio.get_running_loop().create_task(self._run(pod, why))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up the evictions that have not ended: this scheduler may lead no longer."""
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(self, pod: PodInfo, why: str) -> None:
        async with self._slots:
            try:
                await self._evict(pod, why)
            except (errors.NotFound, errors.Conflict):
                # Deleted already, or replaced by another pod of that name.
                return
            except (errors.ApiError, TransportError) as error:
                log.warning("eviction failed", pod=pod.key, error=error)
                self._failed(pod)
                return
        self._recorder.event(object_references.of_pod(pod), "Normal", "Evict", why, action="Preempting")

    async def _evict(self, pod: PodInfo, why: str) -> None:
        with contextlib.suppress(errors.Forbidden):
            await self._mark(pod, why)
        try:
            await self._ask(pod)
        except (errors.TooManyRequests, errors.InternalError, errors.Forbidden, errors.MethodNotAllowed) as refusal:
            if _is_overload(refusal):
                raise
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    async def _ask(self, pod: PodInfo) -> None:
        """Evict a pod; a server that has too much to do is asked again a few times."""
        for tries in itertools.count(1):
            try:
                await pod_calls.evict(self._client, pod.name, namespace=pod.namespace, uid=pod.uid)
            except errors.TooManyRequests as refusal:
                if not _is_overload(refusal) or tries == _TRIES:
                    raise
                await self._clock.sleep(_PAUSES.ceiling(tries))
            else:
                return

    async def _mark(self, pod: PodInfo, why: str) -> None:
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": REASON,
            "message": why,
            "lastTransitionTime": times.format_time(self._clock.now()),
        }
        await self._client.patch(
            PODS,
            pod.name,
            {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}},
            type=PatchType.STRATEGIC,
            namespace=pod.namespace,
            subresource="status",
        )


def _is_overload(refusal: errors.ApiError) -> bool:
    """Whether a server refused without a look at budgets, because it has too much to do."""
    return isinstance(refusal, errors.TooManyRequests) and not refusal.has_cause(_BUDGET)
