"""The process of a leased worker that runs functions, one call after the other. It needs only the standard library.

It gets functions, values and calls as frames from the process that started it (`lease_runner`), and sends one result
for each call. A function is unpickled once and then kept. What it prints goes into a pipe.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import signal
import sys
import time

from rota.python import lease_wire, task_runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, NoReturn

    from rota.python.lease_wire import Frame

#: Functions that are kept.
MOST_FUNCTIONS = 512


def run(connection: socket.socket, printed: int, alive: int) -> NoReturn:
    """Run calls until the other process is gone; it never returns to the code that forked it."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _isolate({connection.fileno(), printed, alive}, alive)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(null)
        os.close(printed)
        if "random" in sys.modules:
            sys.modules["random"].seed()
        _Calls(lease_wire.Channel(connection, blocking=True)).run()
        code = 0
    except lease_wire.Closed:
        code = 0
    except SystemExit as problem:
        code = problem.code if isinstance(problem.code, int) else 1
    except BaseException:  # noqa: BLE001 - the process ends here in any case
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os._exit(code)


def _isolate(kept: set[int], alive: int) -> None:
    """Close all other files, and let the system kill this process when the one that started it is gone.

    `alive` is a pipe whose other end only that process has. The system sends SIGKILL when it closes, also while a
    function runs.
    """
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # that of the listing itself
                continue
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(alive, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(alive, fcntl.F_SETFL, fcntl.fcntl(alive, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)


class _Calls:
    """The state between calls."""

    def __init__(self, channel: lease_wire.Channel) -> None:
        self._channel = channel
        self._functions: dict[bytes, bytes] = {}
        self._loaded: dict[bytes, tuple[Callable[..., Any], str]] = {}
        self._values: dict[int, Frame] = {}
        self._took = 0.0

    def run(self) -> None:
        """Take frames until the end."""
        while True:
            for frame in self._channel.receive():
                if frame.kind == lease_wire.CALL:
                    self._call(frame)
                    self._values.clear()
                    self._channel.flush()
                elif frame.kind == lease_wire.FUNCTION:
                    self._functions[bytes(frame.meta[:32])] = bytes(frame.meta[32:])
                elif frame.kind == lease_wire.FORGET:
                    self._functions.clear()
                    self._loaded.clear()
                elif frame.kind == lease_wire.RESULT:
                    self._values[frame.call] = frame

    def _call(self, frame: Frame) -> None:
        digest, _, refs, packed = lease_wire.read_call(frame.meta)
        self._took = 0.0
        flags, meta, buffers = self._outcome(digest, refs, packed, frame)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        size = len(meta) + sum(len(one) for one in buffers)
        said = lease_wire.result_meta(self._took, b"", size, meta)
        self._channel.send(lease_wire.RESULT, frame.call, flags=flags, meta=said, buffers=buffers)

    def _outcome(
        self, digest: bytes, refs: list[int], packed: memoryview, frame: Frame
    ) -> tuple[int, bytes, list[memoryview]]:
        """Flags, pickled value and buffers of what became of a call."""
        name = "the function"
        try:
            function, name = self._function(digest)
            with task_runner.reading(name):
                args, kwargs = self._arguments(packed, frame, refs)
        except task_runner.Problem as problem:
            return _problem(str(problem), task_runner.HOPELESS)
        started = time.perf_counter()
        try:
            value = function(*args, **kwargs)
            self._took = time.perf_counter() - started
        except SystemExit as problem:
            code = problem.code if isinstance(problem.code, int) else int(problem.code is not None)
            return _problem(f"its function called sys.exit({problem.code!r}) and so returned nothing", code)
        except Exception as problem:  # noqa: BLE001 - it is the function's own, and its caller's to handle
            # frames of this file are of no use to the author of the function
            problem.__traceback__ = problem.__traceback__ and problem.__traceback__.tb_next
            record = task_runner.error_record(problem)
            sys.stderr.write(record["traceback"])
            return lease_wire.RAISED, json.dumps(record).encode(), []
        try:
            return _written(value)
        except Exception as problem:  # noqa: BLE001 - pickling runs what it likes
            why = f"what {name} has returned cannot be sent: {type(problem).__name__}: {problem}"
            return _problem(why, task_runner.UNSENDABLE)

    def _function(self, digest: bytes) -> tuple[Callable[..., Any], str]:
        if digest not in self._loaded:
            name = "the function"
            with task_runner.reading(name):
                function, source, name = pickle.loads(self._functions[digest])  # noqa: S301 - the client sent it
            task_runner.remember(source)
            self._loaded[digest] = function, name
        return self._loaded[digest]

    def _arguments(self, packed: memoryview, frame: Frame, refs: list[int]) -> Any:
        if not refs:
            return pickle.loads(packed, buffers=frame.buffers)  # noqa: S301 - as above
        import io  # noqa: PLC0415 - most calls need it not

        values = [_value(self._values[one]) for one in refs]

        class Reader(pickle.Unpickler):
            def persistent_load(self, pid: Any) -> Any:
                return values[pid]

        return Reader(io.BytesIO(packed), buffers=frame.buffers).load()


def _value(frame: Frame) -> Any:
    return pickle.loads(lease_wire.read_result(frame.meta)[3], buffers=frame.buffers)  # noqa: S301 - made here


def _problem(why: str, code: int) -> tuple[int, bytes, list[memoryview]]:
    return lease_wire.PROBLEM, json.dumps({"problem": why, "code": code}).encode(), []


def _written(value: Any) -> tuple[int, bytes, list[memoryview]]:
    """A value, pickled; by cloudpickle if Python's own does not do."""
    if task_runner.is_plain(value, 3):
        return lease_wire.PLAIN, pickle.dumps(value, 5), []
    buffers: list[pickle.PickleBuffer] = []
    try:
        text = pickle.dumps(value, 5, buffer_callback=buffers.append)
    except Exception:  # noqa: BLE001 - pickling runs what it likes
        try:
            import cloudpickle  # noqa: PLC0415 - it is needed only here
        except ImportError:
            raise
        buffers.clear()
        text = cloudpickle.dumps(value, 5, buffer_callback=buffers.append)
    if len(buffers) > lease_wire.MOST_BUFFERS:
        buffers.clear()
        text = pickle.dumps(value, 5)
    try:
        return 0, text, [one.raw() for one in buffers]
    except BufferError:  # a buffer that is not contiguous
        return 0, pickle.dumps(value, 5), []
