"""Workers of a master in a separate process: the master's side, and the program of the process.

A Python process uses one core, so agents in the API server's process would slow the server down; a separate process
uses the second core. They are ordinary workers, which call the API over TLS and are called over TLS. Standard input
carries their credentials and newly bound pods, one line of JSON each. The process exits when its input closes, so it
does not outlive the master. Tasks do: the next process finds them.
"""

import asyncio
import contextlib
import gc
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.kit import errors, logs, subprocess_shutdown, system
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.pki import contexts
from rota.pki.certificates import Identity
from rota.worker import folders, worker_assembly
from rota.worker.endpoint import endpoint_server
from rota.worker.worker_assembly import Settings, Worker

log = logs.get(__name__)

#: Limit of a line, which may have many pods.
_LONGEST_LINE: Final = 64 * 1024 * 1024
#: Limit of queued pods; further ones are pulled.
_MOST_UNREAD: Final = 4 * 1024 * 1024
#: How long workers may take to stop.
_FAREWELL_S: Final = 10.0
#: How long a process waits for its predecessor, whose master was killed, to release the workers' folders.
_SUCCESSION_S: Final = 20.0
_LOOK_S: Final = 0.05
#: As for servers, see `assembly.run`.
_GARBAGE_AFTER: Final = 20_000


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: its settings, its client certificate, and the certificate of its endpoint."""

    settings: Settings
    client: Identity
    serving: Identity


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start message: the API's address, the trusted CA, and the workers to run."""

    server: str
    certificate_authority: bytes
    #: Where their endpoints listen.
    host: str
    members: tuple[Member, ...]


class _Offer(msgspec.Struct, frozen=True):
    """A further line: newly bound pods of a node."""

    node: str
    pods: list[dict[str, Any]]


class _Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """A response line: the workers are ready, or the error."""

    problem: str = ""
    remedy: str = ""


_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_start: Final = msgspec.json.Decoder(Start, dec_hook=lambda kind, value: kind(value)).decode
_offer: Final = msgspec.json.Decoder(_Offer).decode
_word: Final = msgspec.json.Decoder(_Word).decode


class ProcessEndedError(Exception):
    """A worker process has ended unexpectedly."""


class WorkerProcess:
    """The master's side. Also accepts offers of pods (`eager_dispatch.Local`)."""

    def __init__(self, *, clock: Clock, anew_after_s: float) -> None:
        """A process is replaced after this time, before its certificates expire."""
        self._clock: Final = clock
        self._anew_after_s: Final = anew_after_s
        #: A process that was started and has no start message yet.
        self._spare: Process | None = None
        self._process: Process | None = None
        self._nodes: frozenset[str] = frozenset()
        self._ready: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    async def begin(self) -> None:
        """Start a process before its start message is known, because its imports take long."""
        # a separate session, so that the terminal's signals go to the master only; workers end when their input
        # closes
        self._spare = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "rota.worker_process"), stdin=PIPE, stdout=PIPE, start_new_session=True
        )

    async def close(self) -> None:
        """End a process that was started and not used."""
        spare, self._spare = self._spare, None
        if spare is not None:
            await self._end(spare)

    async def run(self, start: Callable[[], Start]) -> None:
        """Run processes, one at a time, until cancelled; ProcessEndedError if one ends by itself. To be supervised.

        `start` is called for each process.
        """
        while True:
            if self._spare is None:
                await self.begin()
            assert self._spare is not None
            process, self._spare = self._spare, None
            self._process = process
            try:
                with contextlib.suppress(TimeoutError):
                    await self._clock.wait_for(self._serve(process, start()), self._anew_after_s)
            finally:
                self._process = None
                await self._end(process)

    async def wait_ready(self) -> None:
        """Wait until the workers are ready; UserError if they fail."""
        await asyncio.shield(self._ready)

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        """See `eager_dispatch.Local.offer`."""
        if node not in self._nodes:
            return False
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and stdin.transport.get_write_buffer_size() < _MOST_UNREAD:
            stdin.write(_encode(_Offer(node, pods)) + b"\n")
        return True

    async def _serve(self, process: Process, start: Start) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_encode(start) + b"\n")
        self._nodes = frozenset(one.settings.node for one in start.members)
        async for line in process.stdout:
            said = _word(line)
            if said.problem and not self._ready.done():
                self._ready.set_exception(errors.UserError(said.problem, said.remedy))
            elif not self._ready.done():
                self._ready.set_result(None)
        raise ProcessEndedError(f"the process of the workers has ended with {await process.wait()}")

    async def _end(self, process: Process) -> None:
        await subprocess_shutdown.end(process, patience_s=_FAREWELL_S, clock=self._clock, what="workers")


# --- in the process -------------------------------------------------------------------------------------------------


async def _run() -> None:
    """Run the workers until standard input closes, or until one fails."""
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    first = await lines.readline()
    if not first:
        return
    told = _start(first)
    system.allow_many_files()
    clock, rng = system.SystemClock(), system.rng()
    async with contextlib.AsyncExitStack() as parts:
        workers: dict[str, Worker] = {}
        try:
            for one in told.members:
                worker = await parts.enter_async_context(_working(told, one, clock=clock, rng=rng))
                workers[one.settings.node] = worker
        except errors.UserError as problem:
            _say(_Word(problem.message, problem.remedy))
            raise
        gc.freeze()
        _say(_Word())
        works = [asyncio.ensure_future(one.wait()) for one in workers.values()]
        works.append(asyncio.ensure_future(_take_offers(lines, workers)))
        try:
            ended, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for work in ended:
                work.result()
        finally:
            for work in works:
                work.cancel()
            await asyncio.wait(works)


async def _take_offers(lines: asyncio.StreamReader, workers: dict[str, Worker]) -> None:
    async for line in lines:
        offered = _offer(line)
        worker = workers.get(offered.node)
        if worker is not None:
            # The offer came over this process's own input, so it names this incarnation.
            worker.offer(worker.incarnation, offered.pods)


@contextlib.asynccontextmanager
async def _working(told: Start, member: Member, *, clock: Clock, rng: Rng) -> AsyncIterator[Worker]:
    endpoint = Endpoint(
        server=told.server,
        certificate_authority=told.certificate_authority,
        client_certificate=member.client.certificate,
        client_key=member.client.key,
    )
    tls = contexts.server(member.serving, client_authorities=told.certificate_authority)
    listener = endpoint_server.listen(told.host, 0)
    with contextlib.closing(listener):
        settings = msgspec.structs.replace(member.settings, port=listener.getsockname()[1])
        await _succeed(settings.folder, clock)
        async with (
            client_factory.to_server(endpoint, clock=clock, rng=rng) as client,
            worker_assembly.worker(client, settings, clock=clock, rng=rng) as worker,
            endpoint_server.serve(worker, listener=listener, tls=tls),
        ):
            yield worker


async def _succeed(folder: Path, clock: Clock) -> None:
    """Wait for a predecessor whose master was killed: it ends by itself, but not at once."""
    deadline = clock.monotonic() + _SUCCESSION_S
    while folders.is_held(folder) and clock.monotonic() < deadline:
        await clock.sleep(_LOOK_S)


def _say(word: _Word) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(_encode(word) + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    """Run the workers of the start message."""
    logs.configure(level="warning")
    gc.set_threshold(_GARBAGE_AFTER, *gc.get_threshold()[1:])
    with contextlib.suppress(errors.UserError):  # it was said
        uvloop.run(_run())


if __name__ == "__main__":
    main()
