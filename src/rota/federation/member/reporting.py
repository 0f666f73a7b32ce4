"""The answers of an agent to the MemberReports of its cluster."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.federation import kinds, member_reports, object_names
from rota.federation.estimation.member_nodes import NodeCapacity
from rota.federation.member import connections, observation
from rota.federation.member_reports import PodUse, Unusable
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_PODS: Final = ("", "v1", "pods")
_POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
#: What is removed from a status that does not have it any more.
_ANSWERS: Final = ("nodes", "pods", "metrics", "problem")


async def pod_use(member: Client, namespace: str, selector: str) -> PodUse:
    """The pods of a namespace that a selector of labels matches, and what they use."""
    selection = Selection(labels=selector)
    pods = (await member.list(_PODS, namespace=namespace, selection=selection)).items
    metrics = (await member.list(_POD_METRICS, namespace=namespace, selection=selection)).items
    return member_reports.pod_use(pods, metrics)


class Reporting:
    """Answers each MemberReport of a cluster every few seconds."""

    def __init__(
        self,
        control: Client,
        member: Client,
        cluster: str,
        capacities: Callable[[], Sequence[NodeCapacity] | None],
        *,
        clock: Clock,
        rng: Rng,
        every_s: float = observation.EVERY_S,
    ) -> None:
        """`capacities` gives what is free on the nodes; None if that has not been observed yet."""
        self._control: Final = control
        self._member: Final = member
        self._capacities: Final = capacities
        self._clock: Final = clock
        self._every_s: Final = every_s
        self._space: Final = object_names.execution_space(cluster)
        self._frame: Final = Reconciler[str](
            control, f"reports of {cluster}", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._reports: Final = self._frame.follow(kinds.MEMBER_REPORTS, self._changed, namespace=self._space).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _changed(self, key: object, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._frame.queue.add(meta.name(new))

    async def _process(self, name: str) -> float | None:
        report = self._reports.get(name, self._space)
        if report is None or meta.is_deleting(report):
            return None
        try:
            answer = await self._answer(report.get("spec") or {})
        except (Unusable, errors.ApiError) as error:
            answer = {"problem": str(error)[:512]}
        except (TransportError, OSError, TimeoutError) as error:
            log.info("a report is not answered", report=name, error=str(error))
            return self._every_s
        if answer is not None:
            await self._write(report, answer)
        return self._every_s

    async def _answer(self, asked: Object) -> dict[str, Any] | None:
        if "nodes" in asked:
            found = self._capacities()
            return None if found is None else member_reports.written_nodes(found)
        if "podMetrics" in asked:
            wanted: Object = asked["podMetrics"]
            use = await pod_use(self._member, wanted["namespace"], wanted["labelSelector"])
            # with the time, so that every answer is an event, and old ones can be told by their age
            return {**member_reports.written_pods(use), "time": times.format_micro_time(self._clock.now())}
        raise Unusable("this agent does not know what the report asks for; update the agent")

    async def _write(self, report: Object, answer: dict[str, Any]) -> None:
        wanted = {**answer, "observedGeneration": meta.metadata(report).get("generation")}
        present: Object = report.get("status") or {}
        gone = {member: None for member in _ANSWERS if member in present and member not in wanted}
        if not gone and all(present.get(member) == value for member, value in wanted.items()):
            return
        with contextlib.suppress(errors.NotFound):
            await self._control.patch(
                kinds.MEMBER_REPORTS,
                meta.name(report),
                {"status": {**gone, **wanted}},
                namespace=self._space,
                subresource="status",
            )
