"""The audit log's file, written by its own thread, so that no request waits for a disk.

The queue is bounded. When the disk is too slow or fails, lines are dropped; the server's log and, as soon as it can be
written again, the audit log itself report how many. The file is rotated at its maximum size; older files are numbered
and the oldest is deleted.
"""

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from rota.api import times
from rota.kit import errors, logs
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.serial_executor import SerialExecutor

log = logs.get(__name__)

_MOST_PENDING_BYTES: Final = 16 * 1024 * 1024
#: How long to wait after a failed write.
_PAUSE_S: Final = 1.0


class RotatingFile:
    """A file of bounded size with numbered predecessors. Blocks."""

    def __init__(self, path: Path, *, most_bytes: int, kept: int) -> None:
        self._path: Final = path
        self._most_bytes: Final = most_bytes
        self._kept: Final = kept
        self._file: int | None = None
        self._size = 0

    def append(self, data: bytes) -> None:
        """Write whole lines, to a new file if this one is full or was moved. OSError if that fails."""
        if self._file is not None and not self._is_in_place(self._file):
            self.close()
        if self._file is None:
            self._open()
        if self._size and self._size + len(data) > self._most_bytes:
            self._rotate()
        assert self._file is not None, "opened above"
        start = self._size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # half a line would damage the next one
            os.ftruncate(self._file, start)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._kept - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.rename(self._numbered(number + 1))
        if self._kept:
            self._path.rename(self._numbered(1))
        else:
            self._path.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False


class AuditLog:
    """The queue of lines for the file, within `async with`."""

    def __init__(
        self, path: Path, *, clock: Clock, metrics: Metrics, most_bytes: int = 100 * 1024 * 1024, kept: int = 10
    ) -> None:
        """UserError if the file cannot be written."""
        self._path: Final = path
        self._file: Final = RotatingFile(path, most_bytes=most_bytes, kept=kept)
        self._clock: Final = clock
        self._lines: list[bytes] = []
        self._pending_bytes = 0
        self._dropped = 0
        self._failing = False
        self._wake: Final = asyncio.Event()
        self._lost: Final = metrics.counter("audit_events_dropped_total", "Audit events that were not written.")
        try:
            self._file.append(b"")
        except OSError as error:
            raise errors.UserError(
                f"cannot write the audit log {path}: {error.strerror}", "name a file that this user may write"
            ) from None

    async def __aenter__(self) -> Self:
        self._lane = SerialExecutor("audit")
        self._task = asyncio.create_task(self._run(), name="audit")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._flush()
        await self._lane.run(self._file.close)
        self._lane.close()

    def write(self, line: bytes) -> None:
        """Queue a line; never waits."""
        if self._pending_bytes + len(line) > _MOST_PENDING_BYTES:
            self._drop(1)
            return
        self._lines.append(line)
        self._pending_bytes += len(line)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self._flush():
                await self._clock.sleep(_PAUSE_S)

    async def _flush(self) -> bool:
        """Write the queued lines; drop them if that fails."""
        lines, self._lines = self._lines, []
        if self._dropped:
            lines.append(self._gap(self._dropped))
        if not lines:
            return True
        gap, self._dropped = self._dropped, 0
        data = b"".join(lines)
        try:
            await self._lane.run(lambda: self._file.append(data))
        except OSError as error:
            self._dropped += gap
            self._drop(len(lines) - bool(gap))
            if not self._failing:
                log.error("the audit log cannot be written", file=self._path, error=error)
            self._failing = True
            return False
        finally:
            self._pending_bytes = sum(map(len, self._lines))
        if self._failing:
            log.info("the audit log is written again", file=self._path)
        self._failing = False
        return True

    def _drop(self, count: int) -> None:
        if not self._dropped and count:
            log.warning("audit events are being dropped", file=self._path)
        self._dropped += count
        self._lost.inc(count)

    def _gap(self, count: int) -> bytes:
        """A line that reports dropped ones."""
        event = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "Panic",
            "stageTimestamp": times.format_micro_time(self._clock.now()),
            "annotations": {"rota.dev/dropped-events": str(count)},
        }
        return msgspec.json.encode(event) + b"\n"
