"""A result that has not been fetched: it is still with the worker that made it, or here as the bytes that were sent."""

import asyncio
import concurrent.futures
import json
import pickle
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from rota.python import lease_wire, outcomes
from rota.python.failures import NoResult


class Holder(Protocol):
    """The lease whose worker holds results."""

    @property
    def number(self) -> int:
        """Distinguishes leases."""
        ...

    def send(self, kind: int, call: int = 0) -> None:
        """Send a frame to the worker."""
        ...


class Remote:
    """Stands for a result in its future, until it is read. When it is forgotten, the worker drops the result."""

    def __init__(
        self,
        number: int,
        size: int,
        name: str,
        lease: Holder,
        *,
        fetch: "Callable[[Remote], concurrent.futures.Future[lease_wire.Frame]]",
        drop: Callable[[Holder, int], None],
    ) -> None:
        self.number: Final = number
        self.size: Final = size
        self.name: Final = name
        self.lease: Holder | None = lease
        self._fetch: Final = fetch
        #: What was fetched, if it is here; and why it never will be.
        self.frame: lease_wire.Frame | None = None
        self.lost: NoResult | None = None
        self.waiting: Final[list[asyncio.Future[lease_wire.Frame]]] = []
        weakref.finalize(self, drop, lease, number).atexit = False

    def arrived(self, frame: lease_wire.Frame) -> None:
        """It is here now."""
        self.frame, self.lease = frame, None
        for one in self.waiting:
            if not one.done():
                one.set_result(frame)
        self.waiting.clear()

    def gone(self) -> None:
        """Its worker was lost, and the result with it."""
        if self.frame is not None:
            return
        self.lease = None
        self.lost = NoResult(
            f"the result of {self.name} was still with its worker, which is gone; fetch large results soon, or submit "
            "the call again",
            task=self.name,
        )
        for one in self.waiting:
            if not one.done():
                one.set_exception(self.lost)
        self.waiting.clear()

    async def bring(self) -> lease_wire.Frame:
        """The frame of the result, in the client's loop."""
        if self.lost is not None:
            raise self.lost
        if self.frame is not None:
            return self.frame
        waiter: asyncio.Future[lease_wire.Frame] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        if len(self.waiting) == 1 and self.lease is not None:
            self.lease.send(lease_wire.FETCH, self.number)
        return await waiter

    def fetched(self, timeout: float | None = None) -> lease_wire.Frame:
        """The frame of the result; blocks. `TimeoutError` if it takes longer, `NoResult` if it is lost."""
        if self.frame is not None:
            return self.frame
        begun: Any = self._fetch(self)
        found: lease_wire.Frame = begun.result(timeout)
        return found


def read_value(frame: lease_wire.Frame, name: str) -> tuple[Any, BaseException | None]:
    """The value or exception of a call. Unpickles, which runs code: only for frames of an authenticated worker."""
    text = lease_wire.read_result(frame.meta)[3]
    try:
        if frame.flags & lease_wire.RAISED:
            return None, outcomes.raised(json.loads(bytes(text)))
        return pickle.loads(text, buffers=frame.buffers), None  # noqa: S301 - the worker has the lease's key
    except Exception as problem:  # noqa: BLE001 - unpickling runs what it likes
        lost = NoResult(f"what {name} left cannot be read here: {type(problem).__name__}: {problem}", task=name)
        lost.__cause__ = problem
        return None, lost
