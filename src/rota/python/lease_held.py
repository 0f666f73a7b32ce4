"""Results that stay with a leased worker until the client fetches or drops them. It needs only the standard library.

A result is kept as the frame that will be sent. Beyond a limit of memory, the buffers of the oldest are written to
files without a name, from where the system maps them back.
"""

from __future__ import annotations

import mmap

from rota.python import lease_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.python.lease_wire import Frame, Part

#: A smaller result is sent at once.
SMALL_BYTES = 1 << 20
#: The memory for results; more is in files.
MEMORY_BYTES = 256 << 20


class Held:
    """The results of a worker that have not been fetched."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._frames: dict[int, Frame] = {}
        self._in_memory: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def memory(self) -> int:
        """Bytes of results in memory."""
        return sum(self._in_memory.values())

    def takes(self, frame: Frame) -> bool:
        """Keep a result if it is large; whether it is kept."""
        if frame.flags & (lease_wire.RAISED | lease_wire.PROBLEM) or frame.size <= SMALL_BYTES:
            return False
        self.put(frame)
        return True

    def put(self, frame: Frame) -> None:
        """Keep a result."""
        self._frames[frame.call] = frame
        self._in_memory[frame.call] = frame.size
        for oldest in list(self._in_memory):
            if self.memory <= self._memory_bytes:
                break
            self._spill(oldest)

    def frame(self, call: int) -> Frame | None:
        """A result; None if it is not here."""
        return self._frames.get(call)

    def drop(self, call: int) -> None:
        """Forget a result."""
        self._frames.pop(call, None)
        self._in_memory.pop(call, None)

    def close(self) -> None:
        """Forget all."""
        self._frames.clear()
        self._in_memory.clear()

    def _spill(self, call: int) -> None:
        """Move the buffers of a result to a file; without space on the disk they stay in memory."""
        frame = self._frames[call]
        del self._in_memory[call]
        try:
            frame.meta = _mapped(frame.meta)
            frame.buffers = [_mapped(one) for one in frame.buffers]
        except OSError:
            return


def _mapped(buffer: Part) -> Part:
    if len(buffer) < SMALL_BYTES:
        return buffer
    import tempfile  # noqa: PLC0415 - it takes a fifth of the time in which a worker starts, and few need it

    with tempfile.TemporaryFile(prefix="rota-result-") as file:
        file.write(buffer)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), len(buffer), access=mmap.ACCESS_READ))
