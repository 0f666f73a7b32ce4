"""Interactive sessions with a command or a container's process: with pipes, or with a terminal.

The command line of a runtime for a command in a container is started here. Closing a session kills the process with its
whole group; so does the end of the agent, where the program supports that. A session may also be with a container's own
process, which goes on when the session is closed.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from typing import IO, Final, NamedTuple, Protocol

from rota.worker.runtimes import terminals
from rota.worker.runtimes.runtime_interface import Attached, Inside

_PIECE: Final = 64 * 1024
#: How long output is read after the process has ended: another process may hold the pipe open for ever.
_REST_S: Final = 0.5
_KILLED: Final = 128


class Session(Protocol):
    """A session."""

    async def read(self, *, errors: bool = False) -> bytes:
        """The next output, stdout or stderr; empty at the end. With a terminal all is stdout."""
        ...

    async def write(self, data: bytes) -> None:
        """Write input; it is lost if the process no longer reads."""
        ...

    def end_input(self) -> None:
        """Close the input."""
        ...

    def resize(self, *, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one."""
        ...

    async def wait(self) -> int:
        """The exit code, or 128 plus the signal."""
        ...

    async def close(self) -> None:
        """Kill the process, if it has not ended."""
        ...


async def begin(how: Inside, *, tty: bool, stdin: bool) -> Session:
    """Start a command; OSError if that fails."""
    return _Process(await asyncio.to_thread(_at_terminal if tty else _at_pipes, how, stdin))


def attached(ends: Attached, *, end_input: Callable[[], Awaitable[None]] | None) -> Session:
    """A session with a container's process; its input is closed with the session if `end_input` is given."""
    return _Attachment(ends, end_input=end_input)


class _Started(NamedTuple):
    """A process and our ends of its streams."""

    process: "subprocess.Popen[bytes]"
    into: int | None
    output: int
    #: None if it is at a terminal.
    errors: int | None


def _at_pipes(how: Inside, stdin: bool) -> _Started:
    process = subprocess.Popen(
        how.argv,
        env=dict(how.env),
        cwd=how.cwd,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    into, output, errors = (_taken(pipe) for pipe in (process.stdin, process.stdout, process.stderr))
    assert output is not None
    return _Started(process, into, output, errors)


def _taken(pipe: IO[bytes] | None) -> int | None:
    """The descriptor of a pipe, which the caller closes."""
    if pipe is None:
        return None
    number = os.dup(pipe.fileno())
    pipe.close()
    return number


def _at_terminal(how: Inside, _: bool) -> _Started:
    ends = terminals.Ends(stdin=True, tty=True)
    assert ends.into is not None
    try:
        process = subprocess.Popen(
            [*terminals.OWN, *how.argv],
            env=dict(how.env),
            cwd=how.cwd,
            stdin=ends.stdin,
            stdout=ends.output,
            stderr=ends.output,
            start_new_session=True,
        )
    except BaseException:
        ends.close()
        raise
    ends.let_go()
    return _Started(process, ends.into, ends.into, None)


class _Streams:
    """Our ends of the streams of a process."""

    def __init__(self, *, into: int | None, output: int | None, errors: int | None, tty: bool) -> None:
        for file in {into, output, errors}:
            if file is not None:
                os.set_blocking(file, False)
        self._into = into
        self._outputs: Final = {False: output, True: errors}
        self._tty: Final = tty
        self._over: Final = asyncio.Event()
        #: Readers that wait for a stream; they check again when the process has ended.
        self._waiting: Final[set[asyncio.Event]] = set()
        self._loop: Final = asyncio.get_running_loop()

    async def read(self, *, errors: bool = False) -> bytes:
        """See `Session.read`."""
        while (file := self._outputs[errors]) is not None:
            try:
                return os.read(file, _PIECE)
            except BlockingIOError:
                pass
            except OSError:
                return b""  # the other end of the terminal is closed
            if not self._over.is_set():
                await self._readable(file)
                continue
            try:
                async with asyncio.timeout(_REST_S):
                    await self._readable(file)
            except TimeoutError:
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """See `Session.write`."""
        while data and self._into is not None and not self._over.is_set():
            try:
                data = data[os.write(self._into, data) :]
            except BlockingIOError:
                await self._writable(self._into)
            except OSError:
                return  # the process no longer reads

    def end_input(self) -> None:
        """See `Session.end_input`; a terminal has a control character for that."""
        if self._into is None:
            return
        if self._tty:
            with contextlib.suppress(OSError):
                os.write(self._into, terminals.END_OF_INPUT)
        else:
            os.close(self._into)
            self._into = None

    def resize(self, *, columns: int, rows: int) -> None:
        """See `Session.resize`."""
        if self._tty and self._into is not None:
            terminals.resize(self._into, columns=columns, rows=rows)

    def _let_go(self) -> None:
        for file in {self._into, *self._outputs.values()}:
            if file is not None:
                os.close(file)
        self._into = self._outputs[False] = self._outputs[True] = None

    async def _readable(self, file: int) -> None:
        with self._waiter() as ready:
            self._loop.add_reader(file, ready.set)
            try:
                await ready.wait()
            finally:
                self._loop.remove_reader(file)

    async def _writable(self, file: int) -> None:
        with self._waiter() as ready:
            self._loop.add_writer(file, ready.set)
            try:
                await ready.wait()
            finally:
                self._loop.remove_writer(file)

    @contextlib.contextmanager
    def _waiter(self) -> Iterator[asyncio.Event]:
        ready = asyncio.Event()
        self._waiting.add(ready)
        try:
            yield ready
        finally:
            self._waiting.discard(ready)


class _Process(_Streams):
    """A session with a process of its own.

    asyncio's processes do not end before all their pipes are closed, which may be never; so the end is detected by
    other means here.
    """

    def __init__(self, started: _Started) -> None:
        super().__init__(into=started.into, output=started.output, errors=started.errors, tty=started.errors is None)
        self._process: Final = started.process
        self._watched: Final = os.pidfd_open(started.process.pid)
        self._loop.add_reader(self._watched, self._end)

    async def wait(self) -> int:
        """See `Session.wait`."""
        await self._over.wait()
        code = self._process.wait()
        return code if code >= 0 else _KILLED - code

    async def close(self) -> None:
        """See `Session.close`."""
        if not self._over.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self.wait()
        self._let_go()

    def _end(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        self._process.wait()
        self._over.set()
        for waiting in self._waiting:
            waiting.set()


class _Attachment(_Streams):
    """A session with a container's process, which does not end with it."""

    def __init__(self, attached: Attached, *, end_input: Callable[[], Awaitable[None]] | None) -> None:
        super().__init__(into=attached.into, output=attached.output, errors=attached.errors, tty=attached.tty)
        self._end_input: Final = end_input
        self._ending: asyncio.Future[None] | None = None

    def end_input(self) -> None:
        """See `Session.end_input`; shared input stays open."""
        if self._into is not None and self._end_input is not None and self._ending is None:
            self._ending = asyncio.ensure_future(self._end_input())
            if not self._tty:
                os.close(self._into)
                self._into = None

    async def wait(self) -> int:
        """See `Session.wait`; ends when all output was read. The container's exit code is reported elsewhere."""
        return 0

    async def close(self) -> None:
        """See `Session.close`."""
        self.end_input()
        try:
            if self._ending is not None:
                await self._ending
        finally:
            self._let_go()
