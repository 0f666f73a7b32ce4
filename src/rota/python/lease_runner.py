"""The program of a leased worker: it takes calls from one client and runs them one after the other.

It has two processes. The first one, here, keeps the connection to the client and the queue of calls; the second one
(`lease_child`) runs the functions. So a call can be cancelled while it runs, a function that ends its process fails by
itself, and it is exactly known which call had started. A call is handed over only when the one before it has ended.

Both sides authenticate each other by TLS with the keys of this lease, which the client created. The worker ends when
the client gives it back or disconnects. It needs only the standard library: see `task_runner`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import ssl
import sys
import time
from collections import deque

from rota.python import lease_child, lease_server, lease_wire
from rota.python.lease_held import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.python.lease_wire import Frame

#: After this time a running call is reported as started.
_TOLD_S = 0.01
#: Time between SIGTERM and SIGKILL of a cancelled call.
_GRACE_S = 2.0
#: Calls and functions that a client may leave here.
_MOST_CALLS = 65_536
_MOST_FUNCTIONS = 4_096
#: The printed text that is kept of a call.
_MOST_PRINTED = 64 * 1024
#: While so much waits to be sent, no call is started.
_MOST_UNSENT = 64 << 20
#: A child that dies so often without a call is not started again.
_MOST_IDLE_DEATHS = 5


class _Running:
    """The call that the child runs."""

    __slots__ = ("deadline", "frame", "killed_at", "since", "told", "why")

    def __init__(self, frame: Frame, now: float, timeout: float) -> None:
        self.frame = frame
        self.since = now
        self.deadline = now + timeout if timeout else None
        self.told = False
        #: Why it was killed: `cancelled` or `timeout`; and when SIGKILL follows.
        self.why = ""
        self.killed_at: float | None = None


class _Child:
    """The process that runs functions."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        alive, self._alive = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            lease_child.run(theirs, writing, alive)
        theirs.close()
        os.close(alive)
        os.close(writing)
        os.set_blocking(reading, False)
        ours.setblocking(False)
        self.printed = reading
        self.channel = lease_wire.Channel(ours)
        self.known: set[bytes] = set()

    def kill(self, how: int) -> None:
        """Send a signal to it and to what it has started."""
        for send in (os.killpg, os.kill):
            try:
                send(self.pid, how)
                return
            except OSError:
                continue

    def ended(self) -> int:
        """Its exit code, negative for a signal; closes what belongs to it."""
        self.channel.close()
        os.close(self.printed)
        os.close(self._alive)
        self.kill(signal.SIGKILL)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return -signal.SIGKILL


class Worker:
    """Runs the calls of one client."""

    def __init__(self, channel: lease_wire.Channel, child: _Child) -> None:
        self._channel = channel
        self._child = child
        self._select = selectors.DefaultSelector()
        self._functions: dict[bytes, bytes] = {}
        self._queue: deque[tuple[Frame, bytes]] = deque()
        self._running: _Running | None = None
        self._printed = bytearray()
        self._held = Held()
        self._leaving = False
        self._done = False
        self._idle_deaths = 0
        self._interests: dict[int, int] = {}
        self._takers: dict[int, Callable[[Frame], None]] = {
            lease_wire.CALL: self._queue_call,
            lease_wire.FUNCTION: self._function,
            lease_wire.FORGET: lambda _: self._functions.clear(),
            lease_wire.CANCEL: self._cancel,
            lease_wire.RECALL: self._recall,
            lease_wire.OUTPUT: self._output,
            lease_wire.FETCH: self._fetch,
            lease_wire.DROP: lambda frame: self._held.drop(frame.call),
            lease_wire.PUT: self._put,
            lease_wire.GIVE_BACK: self._give_back,
        }

    def run(self, wakeup: int) -> None:
        """Serve until the client gives the lease back or is gone, or until the machine wants it back."""
        self._select.register(wakeup, selectors.EVENT_READ, "signal")
        self._watch_child()
        self._channel.send(lease_wire.HELLO, meta=json.dumps(_hello()).encode())
        try:
            while not self._done:
                self._advance()
                ready = {key.data for key, _ in self._select.select(self._pause())}
                if self._has_more():
                    ready.add("client")
                for what in ready:
                    self._handle(what, wakeup)
        except lease_wire.Closed:
            pass  # the client is gone, and its calls with it
        finally:
            self._child.ended()
            self._held.close()
            self._channel.close()

    def leave(self) -> None:
        """Start no more calls; the client runs them elsewhere."""
        if not self._leaving:
            self._leaving = True
            self._channel.send(lease_wire.LEAVING)
            while self._queue:
                self._channel.send(lease_wire.RECALLED, self._queue.popleft()[0].call)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _watch_child(self) -> None:
        self._select.register(self._child.channel, selectors.EVENT_READ, "child")
        self._select.register(self._child.printed, selectors.EVENT_READ, "printed")

    def _advance(self) -> None:
        """Start what can be started, enforce times, and send what is queued."""
        now = time.monotonic()  # noqa: TID251 - this source travels by itself
        if self._running is None:
            if self._queue and self._channel.unsent < _MOST_UNSENT:
                self._start(now)
            elif self._leaving and not self._channel.unsent and not self._held:
                self._done = True
        else:
            self._enforce(self._running, now)
        for name, channel in (("client", self._channel), ("child", self._child.channel)):
            try:
                flushed = channel.flush()
            except lease_wire.Closed:
                if name == "client":
                    raise
                flushed = True  # it has died, which its end of the socket tells
            wanted = selectors.EVENT_READ if flushed else selectors.EVENT_READ | selectors.EVENT_WRITE
            number = channel.fileno()
            if number not in self._select.get_map():
                self._select.register(channel, wanted, name)
            elif self._interests.get(number, selectors.EVENT_READ) != wanted:
                self._select.modify(channel, wanted, name)
            self._interests[number] = wanted

    def _pause(self) -> float | None:
        """Seconds until something is due; None if nothing is."""
        running = self._running
        if self._has_more():
            return 0.0
        if running is None:
            return None
        due = [one for one in (running.deadline, running.killed_at) if one is not None]
        if not running.told:
            due.append(running.since + _TOLD_S)
        return max(0.0, min(due) - time.monotonic()) if due else None  # noqa: TID251 - see above

    def _has_more(self) -> bool:
        """Whether bytes of the client have been decrypted and not been read; the system does not know of them."""
        connection = self._channel.socket
        return isinstance(connection, ssl.SSLSocket) and bool(connection.pending())

    def _handle(self, what: str, wakeup: int) -> None:
        if what == "client":
            for frame in self._channel.receive():
                self._take(frame)
        elif what == "child":
            try:
                frames = self._child.channel.receive()
            except lease_wire.Closed:
                self._died()
                return
            for frame in frames:
                self._ended(frame)
        elif what == "printed":
            self._read_printed()
        else:
            if signal.SIGTERM in os.read(wakeup, 4096):
                self.leave()

    # --- from the client ----------------------------------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        take = self._takers.get(frame.kind)
        if take is None:
            raise lease_wire.BadFrame(f"there is no frame of kind {frame.kind}")
        take(frame)

    def _function(self, frame: Frame) -> None:
        if len(self._functions) >= _MOST_FUNCTIONS:
            raise lease_wire.BadFrame("too many functions")
        self._functions[bytes(frame.meta[:32])] = bytes(frame.meta[32:])

    def _recall(self, frame: Frame) -> None:
        if self._removed(frame.call):
            self._channel.send(lease_wire.RECALLED, frame.call)

    def _output(self, frame: Frame) -> None:
        self._read_printed()
        running = self._running is not None and self._running.frame.call == frame.call
        self._channel.send(lease_wire.PRINTED, frame.call, meta=bytes(self._printed) if running else b"")

    def _fetch(self, frame: Frame) -> None:
        found = self._held.frame(frame.call)
        if found is not None:
            self._channel.forward(found)

    def _put(self, frame: Frame) -> None:
        frame.kind = lease_wire.RESULT
        self._held.put(frame)

    def _give_back(self, _: Frame) -> None:
        self._done = True

    def _queue_call(self, frame: Frame) -> None:
        if self._leaving:
            self._channel.send(lease_wire.RECALLED, frame.call)
            return
        blob = self._functions.get(lease_wire.read_call(frame.meta)[0])
        if blob is None or len(self._queue) >= _MOST_CALLS:
            raise lease_wire.BadFrame("a call without its function, or too many of them")
        self._queue.append((frame, blob))

    def _removed(self, call: int) -> bool:
        """Whether a call was still in the queue; it is not any more."""
        for at, (frame, _) in enumerate(self._queue):
            if frame.call == call:
                del self._queue[at]
                return True
        return False

    def _cancel(self, frame: Frame) -> None:
        call, running = frame.call, self._running
        if self._removed(call):
            self._channel.send(lease_wire.RECALLED, call)
        elif running is not None and running.frame.call == call:
            self._kill(running, "cancelled")

    # --- the child ----------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        frame, blob = self._queue.popleft()
        digest, timeout, refs, _ = lease_wire.read_call(frame.meta)
        child = self._child
        if digest not in child.known:
            if len(child.known) >= lease_child.MOST_FUNCTIONS:
                child.known.clear()
                child.channel.send(lease_wire.FORGET)
            child.known.add(digest)
            child.channel.send(lease_wire.FUNCTION, meta=digest + blob)
        for ref in refs:
            value = self._held.frame(ref)
            if value is None:
                self._refuse(frame.call, f"the result of call {ref}, which it needs, is not here")
                return
            child.channel.forward(value)
        self._printed.clear()
        self._running = _Running(frame, now, timeout)
        child.channel.forward(frame)

    def _refuse(self, call: int, why: str) -> None:
        said = lease_wire.result_meta(0.0, b"", 0, json.dumps({"problem": why}).encode())
        self._channel.send(lease_wire.RESULT, call, flags=lease_wire.PROBLEM, meta=said)

    def _enforce(self, running: _Running, now: float) -> None:
        if not running.told and now >= running.since + _TOLD_S:
            running.told = True
            self._channel.send(lease_wire.STARTED, running.frame.call)
        if running.deadline is not None and now >= running.deadline and not running.why:
            self._kill(running, "timeout")
        if running.killed_at is not None and now >= running.killed_at:
            running.killed_at = None
            self._child.kill(signal.SIGKILL)

    def _kill(self, running: _Running, why: str) -> None:
        running.why = running.why or why
        running.deadline = None
        running.killed_at = time.monotonic() + _GRACE_S  # noqa: TID251 - see above
        self._child.kill(signal.SIGTERM)

    def _ended(self, frame: Frame) -> None:
        """Pass on the result of the running call."""
        running = self._running
        if running is None or frame.call != running.frame.call or frame.kind != lease_wire.RESULT:
            return
        self._running = None
        self._idle_deaths = 0
        self._read_printed()
        took, _, size, value = lease_wire.read_result(frame.meta)
        if self._printed:
            frame.meta = lease_wire.result_meta(took, bytes(self._printed), size, bytes(value))
        if self._held.takes(frame):
            said = lease_wire.result_meta(took, bytes(self._printed), frame.size, b"")
            self._channel.send(lease_wire.RESULT, frame.call, flags=frame.flags | lease_wire.HELD, meta=said)
        else:
            self._channel.forward(frame)

    def _died(self) -> None:
        """Report the end of the child, and start another one."""
        self._read_printed()
        child, running = self._child, self._running
        for one in (child.channel, child.printed):
            self._select.unregister(one)
        self._interests.pop(child.channel.fileno(), None)
        code = child.ended()
        self._running = None
        if running is not None:
            said = {"code": code, "why": running.why, "printed": self._printed.decode(errors="replace")}
            self._channel.send(lease_wire.DIED, running.frame.call, meta=json.dumps(said).encode())
        else:
            self._idle_deaths += 1
            if self._idle_deaths >= _MOST_IDLE_DEATHS:
                raise lease_wire.Closed(f"the process for functions ends by itself, with code {code}")
        self._child = _Child()
        self._watch_child()

    def _read_printed(self) -> None:
        while True:
            try:
                text = os.read(self._child.printed, 65_536)
            except (BlockingIOError, InterruptedError):
                return
            if not text:
                return
            with contextlib.suppress(OSError):  # the log has no space; the call goes on
                os.write(1, text)
            self._printed += text
            if len(self._printed) > _MOST_PRINTED:
                del self._printed[:-_MOST_PRINTED]


def _hello() -> dict[str, Any]:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"protocol": lease_wire.PROTOCOL, "python": version, "executable": sys.executable, "pid": os.getpid()}


def serve(given: dict[str, Any]) -> None:
    """Run the calls of the client that has the keys of this lease, until it gives the lease back or is gone."""
    child = _Child()  # before TLS is set up: it imports what it needs meanwhile
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        listening = lease_server.listener(os.environ.pop("ROTA_TASK_ADDRESS", ""), given["ports"])
        connection = lease_server.Reception(listening, lease_server.context(given), reading).client()
    except BaseException:
        child.ended()
        raise
    if connection is None:
        child.ended()
        return
    Worker(lease_wire.Channel(connection), child).run(reading)
