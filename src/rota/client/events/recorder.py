"""Records Events about objects without delaying the caller.

`recorder.event(pod, "Warning", "FailedScheduling", "0/3 nodes are available")` puts the event into a bounded queue and
returns; it neither waits nor raises. `run` writes Event objects (see `correlation`) and retries for a while if the
server does not answer. Events that do not fit into the queue or cannot be written are counted and lost. The exception
are warnings: the latest of each kind about each object waits until there is space, so that no object is left without a
warning because of the events of others.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal

from rota.api import errors, meta
from rota.client.events.correlation import Correlator, CountEvent, CreateEvent, Instruction, Reference, Report, Source
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.kit import logs
from rota.kit.backoff import Backoff, Policy, Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket

log = logs.get(__name__)

EVENTS: Final = ("", "v1", "events")
_QUEUED: Final = 1000
#: Limit of the warnings that wait beyond that, one of a kind for each object.
_LATE: Final = 20_000
#: About five minutes of retries.
_ATTEMPTS: Final = 12
_BACKOFF: Final = Policy(initial_s=1.0, cap_s=30.0)


class EventRecorder:
    """The Events of one component."""

    def __init__(
        self,
        client: Client,
        source: Source,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        bucket: TokenBucket | None = None,
    ) -> None:
        """`bucket` limits the rate of writes, so that events do not displace other requests."""
        self._bucket: Final = bucket
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._correlator: Final = Correlator(source)
        self._reports: Final[asyncio.Queue[Report]] = asyncio.Queue(_QUEUED)
        self._late: Final[dict[tuple[Reference, str], Report]] = {}
        self._counted: Final = (metrics or Metrics("client")).counter(
            "recorder_events_total", "Reports, by what became of them.", ("outcome",)
        )
        self._overflow: Final = self._counted.labels("overflow")

    def event(
        self,
        obj: Mapping[str, Any],
        type: Literal["Normal", "Warning"],  # noqa: A002 - the word of the API
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        """Record an event about an object, which must have its apiVersion and kind."""
        full = self._reports.full()
        if full and (type != "Warning" or len(self._late) >= _LATE):
            self._overflow.inc()
            return
        about = Reference(
            api_version=str(obj.get("apiVersion") or ""),
            kind=str(obj.get("kind") or ""),
            namespace=meta.namespace(obj),
            name=meta.name(obj),
            uid=meta.uid(obj),
        )
        report = Report(about=about, type=type, reason=reason, message=message, action=action)
        if not full:
            self._reports.put_nowait(report)
            return
        if (about, reason) in self._late:
            self._overflow.inc()
        self._late[about, reason] = report

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            report = await self._reports.get()
            while self._late and not self._reports.full():
                self._reports.put_nowait(self._late.pop(next(iter(self._late))))
            if self._bucket is not None and (delay := self._bucket.reserve(self._clock.monotonic())):
                await self._clock.sleep(delay)
            instruction = self._correlator.correlate(report, at=self._clock.now(), now=self._clock.monotonic())
            if instruction is None:
                self._count("suppressed")
            else:
                self._count(await self._persist(instruction))
            self._reports.task_done()

    async def flush(self) -> None:
        """Wait until everything recorded so far is handled; `run` must be running."""
        await self._reports.join()

    async def _persist(self, instruction: Instruction) -> str:
        pauses = Backoff(_BACKOFF, self._rng)
        for _ in range(_ATTEMPTS):
            try:
                await self._write(instruction)
            except errors.AlreadyExists:
                # An attempt whose answer was lost had succeeded.
                return "written"
            except (errors.Forbidden, errors.NotFound, errors.Invalid, errors.BadRequest) as error:
                # Its namespace is terminating or gone, or the event is invalid: a retry would not help.
                log.info("event refused", error=error, reason=instruction.report.reason)
                return "refused"
            except (errors.ApiError, TransportError) as error:
                delay = pauses.next()
                log.debug("event not written", error=error, retry_in_s=round(delay, 3))
                await self._clock.sleep(delay)
            else:
                return "written"
        log.warning(
            "event dropped after retries", about=instruction.report.about.name, reason=instruction.report.reason
        )
        return "failed"

    async def _write(self, instruction: Instruction) -> None:
        match instruction:
            case CreateEvent():
                await self._client.create(EVENTS, instruction.event)
            case CountEvent():
                try:
                    await self._client.patch(
                        EVENTS,
                        instruction.name,
                        instruction.patch,
                        type=PatchType.STRATEGIC,
                        namespace=instruction.namespace,
                    )
                except errors.NotFound:
                    # Events expire after an hour or so.
                    await self._client.create(EVENTS, instruction.event)

    def _count(self, outcome: str) -> None:
        self._counted.labels(outcome).inc()
