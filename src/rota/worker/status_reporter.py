"""Tells the API how pods are. Of several statuses that pile up for one pod only the newest is written.

A write costs the masters more than a short task costs its worker, so none is made that says nothing. That containers
are being made is told only where it takes a while. That a pod runs is told at once, unless very many do: then it waits
for a moment, in which a short task has ended, and one write tells both. Statuses that come while others are on their
way go together in the next request, where the server can take many at once.

A deletion is confirmed only after the last status has arrived: what a pod ended with is not lost with it.
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

#: Statuses in one request, and requests at a time where each is for one.
_TOGETHER: Final = 64
_SINGLES: Final = 16
_PATIENCE_S: Final = 10.0
#: How long the next batch waits after one of several statuses: where many come, more are worth waiting for.
_GATHERING_S: Final = 0.01
#: How many pods a second are told to run at once, after how many in a row; how long others may take to end before that.
_PROMPT_RATE: Final = 25.0
_PROMPT_BURST: Final = 10
_MOMENT_S: Final = 0.1
#: How long a pod may be about to start before that is told.
_STARTING_S: Final = 0.5
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})


class StatusReporter:
    """Writes statuses and confirms deletions."""

    def __init__(self, client: Client, find: Callable[[str], Object | None], *, clock: Clock, rng: Rng) -> None:
        """`find` gives the pod of a uid as the API last had it."""
        # A master that hangs is not worth a longer wait: there may be others.
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
        """This is how a pod is."""
        self._statuses[uid] = status
        if _is_starting(status):
            self._queue.add_after(uid, _STARTING_S)
        elif status.get("phase") == "Running" and not self._prompt.take(self._clock.monotonic()):
            self._queue.add_after(uid, _MOMENT_S)
        else:
            self._queue.add(uid)

    def confirm(self, uid: str) -> None:
        """Nothing of a pod runs any more."""
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
            # Gone, or another one has its name: the watch tells which.
            self._forget(uid)

    def _take(self, uid: str) -> Report | None:
        """What there is to tell of a pod at this moment."""
        pod, status = self._find(uid), self._statuses.pop(uid, None)
        if pod is None or status is None:
            return None
        return Report(namespace=meta.namespace(pod), pod=meta.name(pod), uid=uid, status=status)

    def _give_back(self, report: Report) -> None:
        """It is not told yet, unless something newer is waiting to be."""
        self._statuses.setdefault(report.uid, report.status)

    def _forget(self, uid: str) -> None:
        self._confirming.discard(uid)
        self._statuses.pop(uid, None)


class StatusBatcher:
    """Sends statuses while `run` runs: all together that gathered while the last were on their way.

    A status is taken when it is sent and not before, so that the newest is. To servers that do not know how to take
    several, as stock ones, each is sent by itself.
    """

    def __init__(
        self,
        client: Client,
        *,
        take: Callable[[str], Report | None],
        give_back: Callable[[Report], None],
        clock: Clock,
    ) -> None:
        """`take` gives what there is to tell of a pod, `give_back` gets what could not be told."""
        self._client: Final = client
        self._take: Final = take
        self._give_back: Final = give_back
        self._clock: Final = clock
        #: Pods, and who waits for theirs to be told; False if the server takes one at a time only.
        self._waiting: Final[deque[tuple[str, asyncio.Future[bool]]]] = deque()
        self._some: Final = asyncio.Event()
        self._takes_several = True
        self._singles: Final = asyncio.Semaphore(_SINGLES)

    async def send(self, uid: str) -> None:
        """Send the status of a pod, and wait for what becomes of it; raises why it was not taken."""
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
        """Send what is to be sent, until cancelled."""
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
                continue  # nobody waits any more
            if verdict is None or isinstance(verdict, _OneAtATime):
                answer.set_result(verdict is None)
            else:
                answer.set_exception(verdict)

    async def _told(self, reports: Sequence[Report]) -> dict[str, Exception | None]:
        """What became of each."""
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
        """Whatever ends the block before its time, nothing of them is lost."""
        try:
            yield
        except BaseException:
            for report in reports:
                self._give_back(report)
            raise


class _OneAtATime(Exception):
    """The server does not know how to take several statuses."""


def _is_starting(status: Mapping[str, Any]) -> bool:
    """Whether all that a status says is that a pod has come and nothing of it has run yet."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return status.get("phase") == "Pending" and all(
        (one["state"].get("waiting") or {}).get("reason") in _STARTING for one in containers
    )
