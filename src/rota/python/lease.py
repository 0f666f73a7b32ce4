"""One leased worker, as the client sees it: its connection, and the calls that it has.

The worker is the program of a Job (`lease_runner`), so its pod is placed, watched and removed like that of any call;
`LeaseFuture` is the future of that Job. Calls and results go over the connection only.
"""

import asyncio
import contextlib
import json
import ssl
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from rota.kit import logs
from rota.python import lease_wire, manifests
from rota.python.failures import WrongEnvironment
from rota.python.futures import Future, Owner
from rota.python.lease_keys import LeaseKeys
from rota.python.leased_calls import LeasedCall
from rota.python.remote_results import Remote

#: Functions that a worker keeps, and their bytes; beyond that it forgets all of them.
_MOST_FUNCTIONS: Final = 1000
_MOST_FUNCTION_BYTES: Final = 256 << 20
#: A call that runs for longer occupies its worker.
_WHILE_S: Final = 0.1
_log: Final = logs.get("rota")


class LeaseFuture(Future[None]):
    """The future of a leased worker's Job; it passes on where the worker is, and why it does not run yet."""

    def __init__(self, owner: Owner, name: str) -> None:
        super().__init__(owner, name, function="lease")
        self.on_progress: Callable[[str], None] = lambda address: None

    def progressed(self, *, phase: str, node: str, pod: str, why: str = "", address: str = "") -> None:
        """See `Future`."""
        super().progressed(phase=phase, node=node, pod=pod, why=why)
        self.on_progress(address if phase == "running" else "")


class Events(Protocol):
    """What a lease tells its pool."""

    def on_ready(self, lease: "Lease") -> None:
        """It takes calls."""
        ...

    def on_frame(self, lease: "Lease", frame: lease_wire.Frame) -> None:
        """Its worker sent something."""
        ...

    def on_frames_end(self, lease: "Lease") -> None:
        """All that has arrived was handed over."""
        ...

    def on_lost(self, lease: "Lease", reason: BaseException | None) -> None:
        """It takes no calls any more; its connection is closed."""
        ...


class Lease:
    """A worker that is leased, or asked for."""

    def __init__(self, number: int, future: LeaseFuture, keys: LeaseKeys, ports: list[int], events: Events) -> None:
        self.number: Final = number
        self.future: Final = future
        self.keys: Final = keys
        self.ports: Final = ports
        self._events: Final = events
        self._loop: Final = asyncio.get_running_loop()
        self._channel: lease_wire.Channel | None = None
        self._known: Final[dict[bytes, int]] = {}
        self._flushing = False
        self._writing = False
        self.calls: Final[dict[int, LeasedCall]] = {}
        #: Results that the worker holds.
        self.held: Final[weakref.WeakValueDictionary[int, Remote]] = weakref.WeakValueDictionary()
        self.ahead_s = 0.0
        #: Calls whose arguments are on their way.
        self.reserved = 0
        self._asked: Final[dict[int, list[asyncio.Future[bytes]]]] = {}
        self.connecting = False
        self.ready = False
        self.leaving = False
        self.ended = False
        #: When it had its last call, by the loop's clock; and how many calls it has run.
        self.idle_since = self._loop.time()
        self.count = 0

    @property
    def node(self) -> str:
        """The node of its worker."""
        return self.future.node

    @property
    def held_up(self) -> bool:
        """Whether it runs a call that turned out not to be short; others do not wait behind it."""
        return any(one.started for one in self.calls.values())

    @property
    def takes_calls(self) -> bool:
        """Whether it can get calls."""
        return self.ready and not self.leaving and not self.ended

    @property
    def occupied(self) -> bool:
        """Whether it runs a call that takes a while."""
        long_ago = self._loop.time() - _WHILE_S
        return any(one.started and one.started_at < long_ago for one in self.calls.values())

    # --- the connection -----------------------------------------------------------------------------------------------

    def connected(self, connection: ssl.SSLSocket) -> None:
        """Take over an authenticated connection."""
        if self.ended:
            connection.close()
            return
        connection.setblocking(False)
        self._channel = lease_wire.Channel(connection)
        self._loop.add_reader(connection.fileno(), self._readable)
        self._readable()

    def _readable(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            frames = channel.receive()
            for frame in frames:
                if frame.kind == lease_wire.HELLO:
                    self._hello(frame)
                elif frame.kind == lease_wire.LEAVING:
                    self.leaving = True
                self._events.on_frame(self, frame)
            self._events.on_frames_end(self)
        except (lease_wire.Closed, lease_wire.BadFrame, ValueError) as problem:
            _log.debug("the connection to a leased worker has ended", lease=self.future.name, error=problem)
            self.lose(None)
            return
        connection = channel.socket
        if isinstance(connection, ssl.SSLSocket) and connection.fileno() >= 0 and connection.pending():
            self._loop.call_soon(self._readable)

    def _hello(self, frame: lease_wire.Frame) -> None:
        said: dict[str, Any] = json.loads(bytes(frame.meta))
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if said.get("protocol") != lease_wire.PROTOCOL or said.get("python") != here:
            problem = WrongEnvironment(
                f"the worker on {self.node} has Python {said.get('python')} ({said.get('executable')}) and protocol "
                f"{said.get('protocol')}, and this program Python {here} and protocol {lease_wire.PROTOCOL}; "
                "name an environment with python=...",
                task=self.future.name,
                node=self.node,
            )
            self.lose(problem)
            return
        self.ready = True
        self._events.on_ready(self)

    def lose(self, reason: BaseException | None) -> None:
        """Close the connection, and report that once."""
        if self.ended:
            return
        self.ended = True
        self.close()
        self._events.on_lost(self, reason)

    def close(self) -> None:
        """Close the connection; the worker ends then."""
        self.ended = True
        channel, self._channel = self._channel, None
        for waiters in self._asked.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(b"")
        self._asked.clear()
        if channel is not None and channel.fileno() >= 0:
            self._loop.remove_reader(channel.fileno())
            self._loop.remove_writer(channel.fileno())
            channel.close()

    def give_back(self) -> None:
        """Let the worker end."""
        if self._channel is not None:
            self._channel.send(lease_wire.GIVE_BACK)
            with contextlib.suppress(lease_wire.Closed):
                self._channel.flush()
        self.close()

    async def reason(self) -> BaseException | None:
        """Why the worker has ended, when the cluster knows it."""
        done = asyncio.Event()
        self.future.add_done_callback(lambda _: self._loop.call_soon_threadsafe(done.set))
        await done.wait()
        return None if self.future.cancelled() else self.future.exception(0)

    async def output(self, number: int) -> bytes:
        """What a running call has printed so far."""
        if self._channel is None:
            return b""
        waiter: asyncio.Future[bytes] = self._loop.create_future()
        self._asked.setdefault(number, []).append(waiter)
        self.send(lease_wire.OUTPUT, number)
        return await waiter

    def printed(self, frame: lease_wire.Frame) -> None:
        """Answer those that asked for what a call has printed."""
        for waiter in self._asked.pop(frame.call, ()):
            if not waiter.done():
                waiter.set_result(bytes(frame.meta))

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, kind: int, call: int = 0, **more: Any) -> None:
        """Queue a frame; all frames of one turn of the loop are sent together."""
        if self._channel is None:
            return
        self._channel.send(kind, call, **more)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    @property
    def unsent(self) -> int:
        """Bytes that the connection has not taken yet."""
        return self._channel.unsent if self._channel is not None else 0

    def run(self, call: LeasedCall, refs: list[int]) -> None:
        """Send a call, and its function if the worker has it not."""
        function = call.function
        if function.digest not in self._known:
            if len(self._known) >= _MOST_FUNCTIONS or sum(self._known.values()) > _MOST_FUNCTION_BYTES:
                self._known.clear()
                self.send(lease_wire.FORGET)
            self._known[function.digest] = len(function.content)
            self.send(lease_wire.FUNCTION, meta=function.digest + function.content)
        self.calls[call.number] = call
        self.ahead_s += call.estimate_s or 0.0
        call.lease = self
        timeout = call.options.timeout or 0.0
        self.send(
            lease_wire.CALL,
            call.number,
            meta=lease_wire.call_meta(function.digest, timeout, refs, call.arguments),
            buffers=call.buffers,
        )

    def done_with(self, number: int) -> LeasedCall | None:
        """Remove a call that it has no more; None if it had it not."""
        call = self.calls.pop(number, None)
        if call is not None:
            call.lease = None
            call.started = False
            self.ahead_s = max(0.0, self.ahead_s - (call.estimate_s or 0.0)) if self.calls else 0.0
            self.idle_since = self._loop.time()
        return call

    def _flush(self) -> None:
        self._flushing = False
        channel = self._channel
        if channel is None:
            return
        try:
            done = channel.flush()
        except lease_wire.Closed:
            self.lose(None)
            return
        if done and self._writing:
            self._loop.remove_writer(channel.fileno())
        elif not done and not self._writing:
            self._loop.add_writer(channel.fileno(), self._flush)
        self._writing = not done


def job_name() -> str:
    """A name for the Job of a new lease."""
    return manifests.fresh_name("lease")
