"""The agent's client of the shim: starts it if it does not run, sends requests, and receives the ends of runs."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.kit.clock import Clock

_LENGTH: Final = struct.Struct("!I")
_PROGRAM: Final = "rota.worker.runtimes.process.shim"
_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.01
#: The maximum number of open files in a response.
_FILES: Final = 3
_ANSWER_BYTES: Final = 4096
#: The number of a request that has its own connection.
_ONLY: Final = 0
SOCKET: Final = "nursery.sock"


class ShimGone(Exception):
    """The shim has exited."""


class ShimClient:
    """A connection to the shim of a folder."""

    def __init__(self, folder: Path, *, clock: Clock, on_exit: Callable[[dict[str, Any]], None]) -> None:
        self._folder: Final = folder
        self._clock: Final = clock
        self._on_exit: Final = on_exit
        self._numbers: Final = itertools.count(1)
        self._waiting: Final[dict[int, asyncio.Future[dict[str, Any]]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect to a running shim or start one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        deadline = self._clock.monotonic() + _PATIENCE_S
        begun = False
        while not await self._greet():
            if not begun:
                await asyncio.to_thread(self._begin)
                begun = True
            if self._clock.monotonic() > deadline:
                raise ShimGone(f"the shim in {self._folder} does not answer; see nursery.log there")
            await self._clock.sleep(_PAUSE_S)

    async def _greet(self) -> bool:
        """Connect to a shim that answers; one that is exiting accepts a connection and does not answer."""
        reader = await self._connect()
        if reader is None:
            return False
        self._reading = asyncio.create_task(self._read(reader), name="shim")
        try:
            await self.ask("greet")
        except ShimGone:
            await self.close()
            return False
        return True

    async def close(self) -> None:
        """Disconnect; the shim and its processes go on."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            self._writer = None

    @property
    def gone(self) -> bool:
        """Whether the shim has exited."""
        return self._reading is None or self._reading.done()

    async def lost(self) -> None:
        """Return when the shim has exited."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the response."""
        if self._writer is None or self.gone:
            raise ShimGone("the shim has ended")
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        data = _encoded({"do": do, "n": number, **fields})
        self._writer.write(_LENGTH.pack(len(data)) + data)
        answer: dict[str, Any] = await waiting
        if "error" in answer:
            raise RuntimeError(f"the shim failed to {do}: {answer['error']}")
        return answer

    async def ask_for_files(self, do: str, **fields: Any) -> dict[str, int]:
        """A request whose response has open files by name, over its own connection; none if it is refused."""
        asking = asyncio.ensure_future(asyncio.to_thread(self._ask_for_files, {"do": do, "n": _ONLY, **fields}))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # The thread goes on, and its files must be closed.
            asking.add_done_callback(_close_files)
            raise

    def _ask_for_files(self, request: dict[str, Any]) -> dict[str, int]:
        data = _encoded(request)
        files: list[int] = []
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_PATIENCE_S)
                with self._address() as address:
                    connection.connect(address)
                connection.sendall(_LENGTH.pack(len(data)) + data)
                answer = _only_answer(connection, files)
            if "error" in answer:
                raise RuntimeError(f"the shim failed to {request['do']}: {answer['error']}")
            return dict(zip(answer.get("names") or [], files, strict=True))
        except BaseException as problem:
            for file in files:
                os.close(file)
            if isinstance(problem, OSError):
                raise ShimGone(f"the shim does not answer: {problem}") from problem
            raise

    @contextlib.contextmanager
    def _address(self) -> Iterator[str]:
        """The shim's socket relative to an open folder: the whole path may exceed the limit of a socket address."""
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{SOCKET}"
        finally:
            os.close(folder)

    async def _connect(self) -> asyncio.StreamReader | None:
        try:
            with self._address() as address:
                reader, self._writer = await asyncio.open_unix_connection(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return reader

    def _begin(self) -> None:
        with (self._folder / "nursery.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
            )
        # It outlives us on purpose; without this, asyncio would warn about a child that is not waited for.
        process.returncode = 0

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                message = _decoded(await reader.readexactly(length))
                if "exit" in message:
                    self._on_exit(message["exit"])
                else:
                    waiting = self._waiting.pop(message["n"], None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(message)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ShimGone("the shim has ended"))
        self._waiting.clear()


def _only_answer(connection: socket.socket, files: list[int]) -> dict[str, Any]:
    """The response to the only request of a connection, whose files are added to `files`.

    Every connection gets the ends of runs, so other messages may come before it, or together with it.
    """
    buffer = b""
    while True:
        data, brought, _, _ = socket.recv_fds(connection, _ANSWER_BYTES, _FILES)
        files += brought
        for file in brought:
            os.set_inheritable(file, False)
        if not data:
            raise ConnectionResetError("the shim has ended")
        buffer += data
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            message, buffer = _decoded(buffer[_LENGTH.size : end]), buffer[end:]
            if message.get("n") == _ONLY:
                return message


def _close_files(asked: "asyncio.Future[dict[str, int]]") -> None:
    if not asked.cancelled() and asked.exception() is None:
        for file in asked.result().values():
            os.close(file)


def _encoded(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        # Undecodable bytes, as variables from Secrets may have: the standard library can write and read them.
        return json.dumps(message).encode()


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(data)
    except msgspec.DecodeError:
        found = json.loads(data)
    return found
