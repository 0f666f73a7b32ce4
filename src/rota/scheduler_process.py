"""A master's scheduler in a separate process: the master's side, and the program of the process.

A Python process uses one core, so a scheduler in the API server's process would slow the server down; a separate
process uses the second core. It calls the API over HTTP as its own user, as any scheduler does. Its standard input
carries the start message and requests for explanations and metrics, one line of JSON each; responses go to its
standard output. It exits when its input closes, so it does not outlive the master.
"""

import asyncio
import contextlib
import gc
import itertools
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import uvloop

from rota.api import errors
from rota.client import client_factory
from rota.client.elections.elector import PROMPT
from rota.client.endpoints import Endpoint
from rota.eager_dispatch import EagerDispatch
from rota.kit import logs, subprocess_shutdown, system, tasks
from rota.kit.clock import Clock
from rota.pki import contexts
from rota.pki.certificates import Identity
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.binding import dispatch_mode
from rota.scheduler.explanation.live_explainer import LiveExplainer
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.scheduler.tuning.tuning_follower import TuningFollower

log = logs.get(__name__)

#: Limit of a line: an explanation of very many nodes is long.
_LONGEST_LINE: Final = 64 * 1024 * 1024
#: How long a scheduler may take to finish its bindings and release its lease.
_FAREWELL_S: Final = 10.0
_EXPLANATION_S: Final = 30.0
#: Far below the time that scrapers give a master for all of its metrics.
_SCRAPE_S: Final = 1.5
#: As for servers, see `assembly.run`.
_GARBAGE_AFTER: Final = 20_000
_GONE: Final = "the scheduler's process has ended; ask again in a moment"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start message: the API's address, the credentials, and the dispatch mode."""

    server: str
    certificate_authority: bytes | None = None
    client: Identity | None = None
    #: The client certificate for calls to workers on other machines.
    to_workers: Identity | None = None
    dispatch: str = dispatch_mode.PULL
    #: Absolute paths of the scheduler configuration and of plugin files; the process watches them itself.
    scheduler_config: str = ""
    plugins: tuple[str, ...] = ()
    #: The absolute path of a volcano-scheduler.conf, or "".
    batch_config: str = ""
    #: If it is one of several schedulers: as which one.
    shard: InstanceSettings | None = None


class _Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    identity: str
    start: Start


class _Explain(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A further line: a request to explain a pod."""

    number: int
    pod: dict[str, Any]
    node: str
    limit: int | None


class _Scrape(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A further line: a request for metrics, in the format of this `Accept` header."""

    number: int
    accept: str


_Question: TypeAlias = _Explain | _Scrape


class _Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A response line; number 0 means that the scheduler has read the cluster."""

    number: int
    explanation: dict[str, Any] | None = None
    metrics: bytes | None = None
    refusal: msgspec.Raw = msgspec.Raw()


_greeting: Final = msgspec.json.Decoder(_Greeting).decode
_question: Final = msgspec.json.Decoder(_Question).decode
_answer: Final = msgspec.json.Decoder(_Answer).decode
_encode: Final = msgspec.json.Encoder().encode


class ProcessEndedError(Exception):
    """A scheduler process has ended unexpectedly."""


class SchedulerProcess:
    """The master's side. Also explains pods (`explanations.Explainer`)."""

    def __init__(self, start: Callable[[], Start], *, identity: str, clock: Clock) -> None:
        """`start` is called for each process start."""
        self._start: Final = start
        self._identity: Final = identity
        self._clock: Final = clock
        self._process: Process | None = None
        self._synced: Final = asyncio.Event()
        self._numbers: Final = itertools.count(1)
        self._asked: Final[dict[int, asyncio.Future[_Answer]]] = {}
        #: Whether it has not answered a request for metrics, nor anything since then.
        self._hangs = False

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Run one process until cancelled; ProcessEndedError if it ends by itself. To be supervised."""
        # a separate session, so that the terminal's signals go to the master only; the scheduler ends when its input
        # closes
        command = (sys.executable, "-P", "-m", "rota.scheduler_process")
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE, start_new_session=True
        )
        self._process = process
        try:
            self._write(_Greeting(identity=self._identity, start=self._start()))
            assert process.stdout is not None
            async for line in process.stdout:
                self._take(_answer(line))
            raise ProcessEndedError(f"the scheduler's process has ended with {await process.wait()}")
        finally:
            self._process = None
            self._hangs = False
            self._synced.clear()
            for asked in self._asked.values():
                asked.cancel()
            await self._end(process)

    async def wait_synced(self) -> None:
        """Wait until the scheduler has read the cluster."""
        await self._synced.wait()

    async def explain(self, document: Mapping[str, Any], /, *, node: str, limit: int | None) -> dict[str, Any]:
        """Explain a pod; ApiError if that fails."""
        number = next(self._numbers)
        answer = await self._ask(_Explain(number=number, pod=dict(document), node=node, limit=limit), _EXPLANATION_S)
        if answer.explanation is None:
            raise errors.from_wire(bytes(answer.refusal))
        return answer.explanation

    async def metrics(self, accept: str) -> bytes:
        """The metrics of the process; empty while it does not run or answer.

        Only the first request waits for a process that hangs: the scrape of its master must not take longer each time.
        """
        if self._hangs:
            return b""
        try:
            answer = await self._ask(_Scrape(number=next(self._numbers), accept=accept), _SCRAPE_S)
        except errors.ServiceUnavailable as error:
            log.warning("scheduler metrics not read", error=error)
            self._hangs = self._process is not None
            return b""
        return answer.metrics or b""

    async def _ask(self, question: _Question, patience_s: float) -> _Answer:
        if self._process is None:
            raise errors.ServiceUnavailable(_GONE)
        number = question.number
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._write(question)
            return await self._clock.wait_for(asked, patience_s)
        except TimeoutError:
            raise errors.ServiceUnavailable("the scheduler does not answer; ask again in a moment") from None
        except asyncio.CancelledError:
            if self._process is not None:
                raise
            raise errors.ServiceUnavailable(_GONE) from None
        finally:
            del self._asked[number]

    def _take(self, answer: _Answer) -> None:
        self._hangs = False
        asked = self._asked.get(answer.number)
        if not answer.number:
            self._synced.set()
        elif asked is not None and not asked.done():
            asked.set_result(answer)

    def _write(self, line: msgspec.Struct) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(_encode(line) + b"\n")

    async def _end(self, process: Process) -> None:
        await subprocess_shutdown.end(process, patience_s=_FAREWELL_S, clock=self._clock, what="scheduler")


# --- in the process -------------------------------------------------------------------------------------------------


async def _run() -> None:
    """Schedule until standard input closes."""
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    told = _greeting(await lines.readline())
    clock, rng = system.SystemClock(), system.rng()
    async with (
        client_factory.to_server(_endpoint(told.start), clock=clock, rng=rng) as client,
        tasks.Supervisor("scheduler", clock=clock, rng=rng) as supervisor,
        contextlib.AsyncExitStack() as parts,
    ):
        push = _dispatcher(told.start, clock)
        parts.push_async_callback(push.close)
        source = _source(told.start)
        configuration = LiveConfiguration(source, clock=clock)
        batch = LiveBatchSettings(source.batch, clock=clock)
        scheduler = Scheduler(
            client,
            configuration.loaded,
            clock=clock,
            rng=rng,
            identity=told.identity,
            pace=PROMPT,
            dispatcher=push,
            batch=batch,
            shard=told.start.shard,
        )
        scheduler.follow(configuration)
        supervisor.start("batch configuration", batch.run)
        supervisor.start("scheduler", scheduler.run)
        supervisor.start("configuration", configuration.run)
        supervisor.start("tuning", TuningFollower(client, configuration, clock=clock, rng=rng).run)
        supervisor.start("synced", lambda: _say_when_synced(scheduler))
        explainer = LiveExplainer(scheduler)
        async for line in lines:
            question = _question(line)
            if isinstance(question, _Scrape):
                body = scheduler.metrics.exposition(question.accept)[1]
                await _say(_Answer(number=question.number, metrics=body))
            else:
                await _say(await _explained(explainer, question))


async def _say_when_synced(scheduler: Scheduler) -> None:
    await scheduler.wait_synced()
    await _say(_Answer(number=0))


async def _explained(explainer: LiveExplainer, question: _Explain) -> _Answer:
    try:
        found = await explainer.explain(question.pod, node=question.node, limit=question.limit)
    except errors.ApiError as refusal:
        return _refused(question, refusal)
    except Exception as error:  # a failed request must not end the scheduler
        log.exception("explanation failed", error=error)
        return _refused(question, errors.internal_error("see the scheduler's log"))
    return _Answer(number=question.number, explanation=found)


def _refused(question: _Explain, why: errors.ApiError) -> _Answer:
    return _Answer(number=question.number, refusal=msgspec.Raw(why.encode()))


async def _say(answer: _Answer) -> None:
    # in a thread: a slow reader must not block the scheduler
    await asyncio.to_thread(_put, _encode(answer) + b"\n")


def _put(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _source(start: Start) -> ConfigurationSource:
    file = Path(start.scheduler_config) if start.scheduler_config else None
    batch = Path(start.batch_config) if start.batch_config else None
    return ConfigurationSource(file, tuple(map(Path, start.plugins)), batch)


def _endpoint(start: Start) -> Endpoint:
    client = start.client
    return Endpoint(
        server=start.server,
        certificate_authority=start.certificate_authority,
        client_certificate=None if client is None else client.certificate,
        client_key=None if client is None else client.key,
    )


class _Nobody:
    """A scheduler process has no local workers."""

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        """See `eager_dispatch.Local.offer`."""
        return False


def _dispatcher(start: Start, clock: Clock) -> EagerDispatch:
    tls = None
    if start.to_workers is not None and start.certificate_authority is not None:
        tls = contexts.client(start.to_workers, server_authorities=start.certificate_authority)
    return EagerDispatch(default_mode=start.dispatch, local=_Nobody(), tls=tls, clock=clock)


if __name__ == "__main__":
    logs.configure(level="warning")
    gc.set_threshold(_GARBAGE_AFTER, *gc.get_threshold()[1:])
    uvloop.run(_run())
