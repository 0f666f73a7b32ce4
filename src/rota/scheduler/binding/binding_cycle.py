"""Binding cycles, many at a time: PreBind, Bind, PostBind of pods that Permit let through.

A pod goes straight into the next bind request if no Permit plugin held it, no PreBind plugin has work, and only the
default binder binds it. All other pods get a task of their own. `ended` is called once per pod.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.binding.bind_requests import BindRequestQueue
from rota.scheduler.cycle.scheduling_cycle import AssumedPod
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.extenders.extender_interface import ClusterReader
from rota.scheduler.framework import binding_points
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.status import SKIP, Code, Status
from rota.scheduler.observability.scheduler_metrics import SchedulerMetrics
from rota.scheduler.plugins.default_binder import DefaultBinder
from rota.scheduler.status.fit_errors import PodStatusPatch
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

#: Time limit of a PreBind, Bind or PostBind plugin for one pod; VolumeBinding has a limit of its own.
LONGEST_S: Final = 15 * 60.0


class BindingCycles:
    """Binding cycles that are running."""

    def __init__(
        self,
        *,
        bindings: BindRequestQueue,
        notes: PodStatusWriter,
        clock: Clock,
        figures: SchedulerMetrics,
        ended: Callable[[AssumedPod, Status], None],
    ) -> None:
        """`ended` is called with the result of each cycle; Unreserve is the caller's."""
        self._bindings: Final = bindings
        self._notes: Final = notes
        self._clock: Final = clock
        self._figures: Final = figures
        self._ended: Final = ended
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        #: Why a placement was revoked before its binding began, by pod uid.
        self._revoked: Final[dict[str, str]] = {}
        self._revocable: Final[set[str]] = set()
        self.extender_chain = ExtenderChain()
        self.cluster_reader: ClusterReader | None = None

    def __len__(self) -> int:
        return len(self._tasks) + len(self._bindings)

    def start(self, taken: AssumedPod) -> None:
        """Start the binding cycle of a pod; does not wait."""
        pod = taken.pod
        if not taken.permission.waits_s and not self._notes.busy(pod.uid) and self._plain(taken):
            self._notes.forget(pod.uid)
            self._bindings.submit(pod, taken.node_name, partial(self._answered, taken, self._clock.monotonic()))
            return
        task = asyncio.get_running_loop().create_task(self._run(taken))
        self._tasks[pod.uid] = task
        task.add_done_callback(partial(self._done, pod.uid))

    def _done(self, uid: str, task: asyncio.Task[None]) -> None:
        # After a lost race the pod's next task may have begun already.
        if self._tasks.get(uid) is task:
            del self._tasks[uid]

    def revoke(self, uid: str, why: str) -> bool:
        """Revoke a placement if its binding has not begun; returns whether it was revoked."""
        if uid in self._revocable:
            self._revoked[uid] = why
            self._tasks[uid].cancel()
            return True
        return False

    def seen(self, uid: str, node_name: str) -> None:
        """The watch shows the pod on a node."""
        self._bindings.seen(uid, node_name)

    async def close(self) -> None:
        """Cancel cycles whose binding has not begun, and wait for the others."""
        for uid in tuple(self._tasks):
            self.revoke(uid, "the scheduler stopped")
        await self._bindings.close()
        while self._tasks:
            await asyncio.wait(set(self._tasks.values()))

    def _plain(self, taken: AssumedPod) -> bool:
        """Whether sending the binding is all that is left to do."""
        framework = taken.framework
        (*others, binder) = framework.at(ExtensionPoint.BIND) or (None,)
        if (
            others
            or not isinstance(binder, DefaultBinder)
            or framework.at(ExtensionPoint.POST_BIND)
            or self.extender_chain
        ):
            return False
        return binding_points.nothing_to_prepare(framework, taken.state, taken.pod, taken.node_name)

    def _announce(self, taken: AssumedPod) -> bool:
        """Write the nominated node to the pod's status if its binding takes time; returns whether it does.

        Cluster autoscalers then know that this pod needs no new node, and the next leader tries that node first.
        """
        pod = taken.pod
        slow = taken.permission.waits_s or not binding_points.nothing_to_prepare(
            taken.framework, taken.state, pod, taken.node_name
        )
        if slow:
            self._notes.write(pod, PodStatusPatch(nominated=taken.node_name))
        return bool(slow)

    async def _run(self, taken: AssumedPod) -> None:
        pod = taken.pod
        announced = self._announce(taken)
        try:
            status = await self._prepare(taken)
            if status.ok:
                await self._notes.settled(pod.uid)
                status = await self._bind(taken)
        except asyncio.CancelledError:
            why = self._revoked.pop(pod.uid, None)
            if why is None:
                binding_points.unreserve(taken.framework, taken.state, pod, taken.node_name)
                raise
            status = Status(Code.UNSCHEDULABLE, (why,))
        except Exception as error:
            log.exception("binding cycle failed", error=error, pod=pod.key)
            status = statuses.fault(error)
        finally:
            self._revocable.discard(pod.uid)
        if announced and not status.ok:
            self._notes.write(pod, PodStatusPatch(nominated=""))
        self._ended(taken, status)
        if status.ok:
            for problem in await binding_points.post_bind(taken.framework, taken.state, pod, taken.node_name):
                log.warning("plugin failed after binding", pod=pod.key, plugin=problem.plugin, reasons=problem.reasons)

    async def _prepare(self, taken: AssumedPod) -> Status:
        pod = taken.pod
        self._revocable.add(pod.uid)
        preparing = binding_points.pre_bind(taken.framework, taken.state, pod, taken.node_name, run_together=_together)
        status = await self._in_time(preparing, "PreBind", taken)
        self._revocable.discard(pod.uid)
        return status

    async def _bind(self, taken: AssumedPod) -> Status:
        pod = taken.pod
        status = SKIP
        document = self.cluster_reader.pod(pod.uid) if self.extender_chain and self.cluster_reader is not None else None
        if document is not None:
            status = await self.extender_chain.bind(document, taken.node_name)
        if not status.skipped:
            return status
        return await self._in_time(
            binding_points.bind(taken.framework, taken.state, pod, taken.node_name), "Bind", taken
        )

    async def _in_time(self, step: Coroutine[Any, Any, Status], point: str, taken: AssumedPod) -> Status:
        began = self._clock.monotonic()
        try:
            status = await self._clock.wait_for(step, LONGEST_S)
        except TimeoutError:
            status = Status(Code.ERROR, (f"{point} took longer than {LONGEST_S:g} s",))
        self._figures.passed(point, status, taken.framework.profile_name, self._clock.monotonic() - began)
        return status

    def _answered(self, taken: AssumedPod, began: float, status: Status) -> None:
        self._figures.passed("Bind", status, taken.framework.profile_name, self._clock.monotonic() - began)
        self._ended(taken, status)


async def _together(steps: Sequence[Coroutine[Any, Any, Status]]) -> Sequence[Status]:
    return await asyncio.gather(*steps)
