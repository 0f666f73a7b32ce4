"""Extenders as child processes: the protocol's bodies, one per line, through standard input and output.

A request is a line `{"id": 7, "verb": "filter", "body": {...}}`. Its response is a line `{"id": 7, "body": {...}}` or
`{"id": 7, "error": "the reason"}`. Responses may come in any order. The child's standard error goes to our log. The
child is started at the first request, and again with backoff after it has died. A child that misses a deadline and has
written nothing since the request is considered stuck and is killed. A closed standard input tells it to exit.
"""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rota.kit import logs
from rota.kit.backoff import Backoff, Policy, Rng
from rota.kit.clock import Clock
from rota.scheduler.extenders.extender import ExchangeError

log = logs.get(__name__)

#: As over HTTP: several times the size of 5,000 whole nodes.
_LONGEST_LINE: Final = 256 << 20
#: Time for a child to exit by itself, and then after a signal.
_PATIENCE_S: Final = 2.0
_SHOWN: Final = 120


class _Request(msgspec.Struct, frozen=True):
    id: int
    verb: str
    body: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True):
    id: int
    body: msgspec.Raw = msgspec.Raw(b"")
    error: str = ""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Answer)


class ProcessExchange:
    """An `Exchange` with a child process. Used within one event loop."""

    def __init__(
        self, command: Sequence[str], *, timeout_s: float, clock: Clock, rng: Rng, restarts: Policy | None = None
    ) -> None:
        self._command: Final = tuple(command)
        self._timeout_s: Final = timeout_s
        self._clock: Final = clock
        self._backoff: Final = Backoff(restarts or Policy(), rng)
        self._child: _Child | None = None
        self._not_before = 0.0
        self._starting: Final = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._child.process.pid if self._child is not None and self._child.alive else None

    async def ask(self, verb: str, body: bytes) -> bytes:
        """See `Exchange.ask`."""
        child = await self._running()
        said = child.lines
        try:
            answer = await self._clock.wait_for(child.ask(verb, body), self._timeout_s)
        except TimeoutError as error:
            if child.lines == said:
                child.end(f"it did not answer within {self._timeout_s:g} s")
            raise ExchangeError(f"no answer within {self._timeout_s:g} s") from error
        self._backoff.reset()
        return answer

    async def close(self) -> None:
        """See `Exchange.close`."""
        self._closed = True
        if self._child is not None:
            await self._child.leave(self._clock)

    async def _running(self) -> "_Child":
        async with self._starting:
            if self._closed:
                raise ExchangeError("the extender was closed")
            if self._child is not None and self._child.alive:
                return self._child
            now = self._clock.monotonic()
            if self._child is not None and not self._child.exit_handled:
                self._child.exit_handled = True
                self._put_off(now)
            if now < self._not_before:
                why = self._child.ending if self._child is not None else "it cannot be started"
                raise ExchangeError(f"{why}; it is started again in {self._not_before - now:.1f} s")
            self._child = await self._started(now)
            return self._child

    async def _started(self, now: float) -> "_Child":
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                # Ctrl-C is meant for us; the child goes when its standard input is closed.
                start_new_session=True,
            )
        except OSError as error:
            self._child = None
            self._put_off(now)
            raise ExchangeError(f"cannot be started: {error.strerror}") from error
        log.info("extender started", command=shlex.join(self._command), pid=process.pid)
        return _Child(process, shlex.join(self._command))

    def _put_off(self, now: float) -> None:
        self._not_before = now + self._backoff.next()


class _Child:
    """One run of the child process, with its pending requests."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None
        self.process: Final = process
        #: How many lines it has written.
        self.lines = 0
        #: Why it ended.
        self.ending = ""
        #: Whether its exit has been handled.
        self.exit_handled = False
        self._name: Final = name
        self._input: Final = process.stdin
        self._last_id = 0
        self._waiting: Final[dict[int, asyncio.Future[bytes]]] = {}
        self._tasks: Final = (asyncio.create_task(self._read()), asyncio.create_task(self._log()))

    @property
    def alive(self) -> bool:
        """Whether it accepts requests."""
        return not self.ending and self.process.returncode is None

    async def ask(self, verb: str, body: bytes) -> bytes:
        """Send a request and wait for its response without a limit."""
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            with contextlib.suppress(ConnectionError):  # it has died; `_read` handles that
                self._input.write(_encoder.encode(_Request(number, verb, msgspec.Raw(body))) + b"\n")
                await self._input.drain()
            return await answer
        finally:
            del self._waiting[number]

    def end(self, why: str) -> None:
        """Kill it; pending requests fail with this reason."""
        if not self.ending:
            self.ending = why
            log.warning("extender ended", command=self._name, why=why)
        self._signal(signal.SIGKILL)
        self._refuse(why)

    async def leave(self, clock: Clock) -> None:
        """Ask it to exit, then kill it."""
        self.ending = self.ending or "the extender was closed"
        self._input.close()
        for insistence in (signal.SIGTERM, signal.SIGKILL):
            try:
                await clock.wait_for(self.process.wait(), _PATIENCE_S)
                break
            except TimeoutError:
                self._signal(insistence)
        await self.process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._refuse(self.ending)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    async def _read(self) -> None:
        output = self.process.stdout
        assert output is not None
        why = ""
        try:
            while line := await output.readline():
                self.lines += 1
                self._take(line)
        except ValueError:
            why = f"it wrote a line of more than {_LONGEST_LINE >> 20} MiB"
            self.end(why)
        code = await self.process.wait()
        if not self.ending:
            self.ending = f"the process ended by signal {-code}" if code < 0 else f"the process ended with code {code}"
            log.warning("extender ended", command=self._name, why=self.ending)
        self._refuse(self.ending)

    def _take(self, line: bytes) -> None:
        if line.isspace():
            return
        try:
            answer = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # The request of this line is unknown.
            shown = line[:_SHOWN].decode(errors="replace").rstrip()
            self._refuse(f"malformed answer: {error}: {shown}")
            return
        waiting = self._waiting.get(answer.id)
        if waiting is None or waiting.done():
            return  # too late; the timeout has been reported
        if answer.error:
            waiting.set_exception(ExchangeError(answer.error))
        else:
            waiting.set_result(bytes(answer.body))

    def _refuse(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ExchangeError(why))

    async def _log(self) -> None:
        errors: Any = self.process.stderr
        while True:
            try:
                line = await errors.readline()
            except ValueError:
                continue  # a line too long to keep; the stream continues behind it
            if not line:
                return
            log.info("extender output", command=self._name, line=line.decode(errors="replace").rstrip())
