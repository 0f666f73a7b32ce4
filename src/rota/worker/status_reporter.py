"""Writes pod statuses to the API. Of several statuses of one pod only the newest is written.

A write costs the masters more than a short task costs its worker, so redundant ones are avoided. ContainerCreating is
written only if it takes a while. Running is written at once, unless there are very many starts: then it is delayed a
little, so that for a short task one write covers start and end. Statuses that arrive while a request is in flight go
together in the next one, if the server supports that.

A deletion is confirmed only after the last status was written, so that the pod's result is not lost.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta
from rota.client import pods as pod_calls
from rota.client.pods import PODS, Report
from rota.client.queues.work import WorkQueue
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.rate_limit import TokenBucket

log = logs.get(__name__)

#: Statuses per request, and concurrent requests if each has one status.
_TOGETHER: Final = 64
_SINGLES: Final = 16
_PATIENCE_S: Final = 10.0
#: How long the next batch waits after a batch of several: under load larger batches pay off.
_GATHERING_S: Final = 0.01
#: Rate limit and burst of immediate Running writes; and how long other pods are delayed.
_PROMPT_RATE: Final = 25.0
_PROMPT_BURST: Final = 10
_MOMENT_S: Final = 0.1
#: How long a pod may be starting before that is written.
_STARTING_S: Final = 0.5
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})


class StatusReporter:
    """Writes statuses and confirms deletions."""

    def __init__(self, client: Client, find: Callable[[str], Object | None], *, clock: Clock, rng: Rng) -> None:
        """`find` returns the pod of a uid as the API last had it."""
        # A shorter timeout than usual: another master may answer.
        self._client: Final = client.with_settings(timeout_s=_PATIENCE_S)
        self._find: Final = find
        self._status_batcher: Final = StatusBatcher(
            self._client, take=self._take, give_back=self._give_back, clock=clock
        )
        self._statuses: Final[dict[str, dict[str, Any]]] = {}
        self._confirming: Final[set[str]] = set()
        self._clock: Final = clock
        self._prompt: Final = TokenBucket(rate=_PROMPT_RATE, burst=_PROMPT_BURST, now=clock.monotonic())
        self._queue: Final = WorkQueue[str](clock=clock, rng=rng, name="statuses")

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self._status_batcher.run())
            running.create_task(self._queue.work(self._write, workers=_TOGETHER))

    def tell(self, uid: str, status: dict[str, Any]) -> None:
        """Set the status of a pod."""
        self._statuses[uid] = status
        if _is_starting(status):
            self._queue.add_after(uid, _STARTING_S)
        elif status.get("phase") == "Running" and not self._prompt.take(self._clock.monotonic()):
            self._queue.add_after(uid, _MOMENT_S)
        else:
            self._queue.add(uid)

    def confirm(self, uid: str) -> None:
        """Confirm the deletion: nothing of the pod runs."""
        self._confirming.add(uid)
        self._queue.add(uid)

    async def _write(self, uid: str) -> None:
        pod = self._find(uid)
        if pod is None:
            self._forget(uid)
            return
        try:
            if uid in self._statuses:
                await self._status_batcher.send(uid)
            if uid in self._confirming and uid not in self._statuses:
                name, namespace = meta.name(pod), meta.namespace(pod)
                await self._client.delete(PODS, name, namespace=namespace, grace_period_s=0, uid=uid)
                self._confirming.discard(uid)
        except (errors.NotFound, errors.Conflict):
            # Deleted, or replaced by another pod of that name: the watch will show it.
            self._forget(uid)

    def _take(self, uid: str) -> Report | None:
        """The status of a pod to write now."""
        pod, status = self._find(uid), self._statuses.pop(uid, None)
        if pod is None or status is None:
            return None
        return Report(namespace=meta.namespace(pod), pod=meta.name(pod), uid=uid, status=status)

    def _give_back(self, report: Report) -> None:
        """Put back a status that was not written, unless a newer one is pending."""
        self._statuses.setdefault(report.uid, report.status)

    def _forget(self, uid: str) -> None:
        self._confirming.discard(uid)
        self._statuses.pop(uid, None)


class StatusBatcher:
    """Sends statuses while `run` runs, batched while earlier requests are in flight.

    A status is taken when it is sent and not before, so that it is the newest. To servers without batch support, as
    stock ones, each is sent by itself.
    """

    def __init__(
        self,
        client: Client,
        *,
        take: Callable[[str], Report | None],
        give_back: Callable[[Report], None],
        clock: Clock,
    ) -> None:
        """`take` returns the status of a pod to write, `give_back` receives those that could not be written."""
        self._client: Final = client
        self._take: Final = take
        self._give_back: Final = give_back
        self._clock: Final = clock
        #: Pods, and the futures of their senders; False if the server takes one at a time only.
        self._waiting: Final[deque[tuple[str, asyncio.Future[bool]]]] = deque()
        self._some: Final = asyncio.Event()
        self._takes_several = True
        self._singles: Final = asyncio.Semaphore(_SINGLES)

    async def send(self, uid: str) -> None:
        """Send the status of a pod and wait for the result; raises the error if it was refused."""
        if self._takes_several:
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((uid, answer))
            self._some.set()
            if await answer:
                return
        async with self._singles:
            report = self._take(uid)
            if report is not None:
                with self._kept([report]):
                    await pod_calls.report(self._client, report)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                portion = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
                await self._send_together(portion)
                if len(portion) > 1:
                    await self._clock.sleep(_GATHERING_S)

    async def _send_together(self, portion: Sequence[tuple[str, "asyncio.Future[bool]"]]) -> None:
        reports = {uid: report for uid, _ in portion if (report := self._take(uid)) is not None}
        verdicts = await self._told(list(reports.values())) if reports else {}
        for uid, answer in portion:
            verdict = verdicts.get(uid)
            if verdict is not None and uid in reports:
                self._give_back(reports[uid])
            if answer.done():
                continue  # the sender was cancelled
            if verdict is None or isinstance(verdict, _OneAtATime):
                answer.set_result(verdict is None)
            else:
                answer.set_exception(verdict)

    async def _told(self, reports: Sequence[Report]) -> dict[str, Exception | None]:
        """The error of each, or None."""
        verdicts: Sequence[Exception | None]
        try:
            with self._kept(reports):
                verdicts = await pod_calls.report_many(self._client, reports)
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden):
            log.info("the server takes one status at a time")
            self._takes_several = False
            verdicts = [_OneAtATime()] * len(reports)
        except (errors.ApiError, TransportError) as problem:
            verdicts = [problem] * len(reports)
        return {report.uid: verdict for report, verdict in zip(reports, verdicts, strict=True)}

    @contextlib.contextmanager
    def _kept(self, reports: Sequence[Report]) -> Iterator[None]:
        """If the block fails, put all of them back."""
        try:
            yield
        except BaseException:
            for report in reports:
                self._give_back(report)
            raise


class _OneAtATime(Exception):
    """The server does not support batches of statuses."""


def _is_starting(status: Mapping[str, Any]) -> bool:
    """Whether a status says only that a pod has arrived and nothing of it has run yet."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return status.get("phase") == "Pending" and all(
        (one["state"].get("waiting") or {}).get("reason") in _STARTING for one in containers
    )
