"""The shim: a small program that starts processes, stores their output, and waits for their end, independent of the
agent.

    python -m rota.worker.runtimes.process.shim FOLDER

The agent may be stopped, updated or killed; the processes that it started go on, their output is stored, and their exit
codes are kept until the agent has read them. So this program does little, needs only the standard library, and is never
restarted while something runs. It listens on `FOLDER/nursery.sock`, which only this user can access; a message is a
length of four bytes and a JSON object. Requests have an `n` that the response repeats; ends are sent unasked.
`FOLDER/runs.ledger` has a record of each run.

Output is stored in the CRI log format: `<time> stdout|stderr F|P <line>`.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rota.worker.append_log import AppendLog
from rota.worker.runtimes import terminals
from rota.worker.runtimes.process import isolation, process_info, run_output, spawn
from rota.worker.runtimes.process.deaths import ALIVE_S, is_lost
from rota.worker.runtimes.process.run_output import OutputLog
from rota.worker.runtimes.process.spawn import Started

_LENGTH: Final = struct.Struct("!I")
_MOST: Final = 16 * 1024 * 1024
_CHUNK: Final = 64 * 1024
#: The kernel's maximum size of a pipe.
_PIPE_BYTES: Final = 1024 * 1024
_PR_SET_CHILD_SUBREAPER: Final = 36
#: Held by the only shim of a folder; its modification time is the shim's last sign of life.
_LOCK: Final = "nursery.lock"
#: How long the program stays without an agent and without runs.
_IDLE_S: Final = 30.0
_LOG_BYTES: Final = 10 * 1024 * 1024
_LOG_FILES: Final = 5
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class Child:
    """One run."""

    def __init__(self, request: dict[str, Any], started: Started, log: OutputLog, *, into: int | None) -> None:
        self.id: Final[str] = request["id"]
        self.pid: Final = started.pid
        self.cgroups: Final[list[str]] = request.get("cgroups") or []
        self.memory: Final[str] = request.get("memory") or ""
        self.log: Final = log
        self.tty: Final = bool(request.get("tty"))
        #: The writing end of its input, if it has one that has not ended; a terminal is also read there.
        self.into = into
        outputs = started.outputs
        if self.tty and into is not None:
            outputs = {"stdout": os.fdopen(into, "rb", buffering=0, closefd=False)}
        #: The pipes of its output, by the names of the streams.
        self.pipes: Final = {pipe.fileno(): (name, pipe) for name, pipe in outputs.items()}
        #: The writing ends of pipes to attached readers, by stream.
        self.listeners: Final[dict[str, list[int]]] = {}
        #: Terminal output before the first reader attached: that reader needs to see the prompt.
        self.unseen: bytearray | None = bytearray() if self.tty else None
        #: Whether it was told to stop, so that a death by a signal is expected.
        self.asked = False
        #: Its exit status; reported when its output has ended as well.
        self.status: int | None = None
        self.finished_at = 0.0


class Shim:
    """The program."""

    def __init__(self, folder: Path, *, predecessor_ended_at: float) -> None:
        """`predecessor_ended_at` is the last sign of life of a shim that was killed; 0 if there was none."""
        self._name: Final = secrets.token_hex(8)
        self._predecessor_ended_at: Final = predecessor_ended_at
        self._said_alive_at = 0.0
        self._runs: Final = AppendLog(folder.absolute() / "runs.ledger")
        self._selector: Final = selectors.DefaultSelector()
        self._children: Final[dict[str, Child]] = {}
        self._by_pid: Final[dict[int, Child]] = {}
        self._agents: Final[dict[socket.socket, bytearray]] = {}
        #: Messages to send at the end of this iteration.
        self._unsent: Final[dict[socket.socket, list[bytes]]] = {}
        self._done = False
        # By a name relative to the folder: the whole path may exceed the limit of a socket address.
        os.chdir(folder)
        path = Path("nursery.sock")
        path.unlink(missing_ok=True)
        self._listener: Final = socket.socket(socket.AF_UNIX)
        os.umask(0o177)
        self._listener.bind(str(path))
        os.umask(spawn.UMASK)
        self._listener.listen()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def run(self) -> None:
        """Serve until told to exit while nothing runs."""
        # Orphans of a container become our children, and are killed with it.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake, waker = socket.socketpair()
        for end in (wake, waker):
            end.setblocking(False)
        # Handled without an action. A signal that is ignored would be ignored by all child processes, too.
        for heard in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(heard, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self._selector.register(wake, selectors.EVENT_READ, lambda _: self._reap(wake))
        while not self._done:
            self._say_alive()
            ready = self._selector.select(ALIVE_S if self._children else _IDLE_S)
            # No agent, and nothing to keep: ended runs are on disk.
            self._done = not ready and not self._agents and not self._children
            if self._done:
                break
            for key, _ in ready:
                # An earlier event of this iteration may have closed it.
                present = self._selector.get_map().get(key.fd)
                if present is not None and present.data is key.data:
                    self._guarded(key)
            for connection in tuple(self._unsent):
                self._flush(connection)
        # It exits by itself: no earlier end was caused by that.
        os.utime(_LOCK, (0, 0))

    def _say_alive(self) -> None:
        now = time.monotonic()  # noqa: TID251 - this program has no clock to be given
        if not self._said_alive_at or now - self._said_alive_at >= ALIVE_S:
            self._said_alive_at = now
            with contextlib.suppress(OSError):
                os.utime(_LOCK)

    @staticmethod
    def _guarded(key: selectors.SelectorKey) -> None:
        """An error with one descriptor must not affect the others."""
        try:
            key.data(key.fileobj)
        except Exception:  # noqa: BLE001 - the main loop has no caller that could handle it
            traceback.print_exc()

    # --- agents -------------------------------------------------------------------------------------------------------

    def _accept(self, listener: Any) -> None:
        connection, _ = listener.accept()
        connection.settimeout(10)
        self._agents[connection] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ, self._read)

    def _read(self, connection: Any) -> None:
        try:
            data = connection.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        buffer = self._agents[connection]
        buffer += data
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            if length > _MOST:
                self._drop(connection)
                return
            if len(buffer) < _LENGTH.size + length:
                return
            message = bytes(buffer[_LENGTH.size : _LENGTH.size + length])
            del buffer[: _LENGTH.size + length]
            self._answer(connection, json.loads(message))

    def _answer(self, connection: socket.socket, request: dict[str, Any]) -> None:
        verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "greet": lambda _: {},
            "spawn": self._spawn,
            "signal": self._signal,
            "list": self._list,
            "forget": self._forget,
            "attach": self._attach,
            "end_input": self._end_input,
            "remove": _remove,
            "end": self._end,
            "try_isolation": lambda asked: {"problem": isolation.problem(asked["plan"])},
        }
        try:
            answer = verbs[request["do"]](request)
        except Exception as problem:  # noqa: BLE001 - one request must not end what others run
            traceback.print_exc()
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        files: list[int] = answer.pop("files", [])
        self._send(connection, {"n": request.get("n"), **answer}, files)
        for file in files:
            os.close(file)

    def _send(self, connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        data = _encode(message).encode()
        self._unsent.setdefault(connection, []).append(_LENGTH.pack(len(data)) + data)
        if files:
            self._flush(connection, files)

    def _flush(self, connection: socket.socket, files: Sequence[int] = ()) -> None:
        """Send the pending messages of an agent; files go with the last message."""
        *others, last = self._unsent.pop(connection)
        try:
            if files:
                connection.sendall(b"".join(others))
                socket.send_fds(connection, [last], files)
            else:
                connection.sendall(b"".join((*others, last)))
        except OSError:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._unsent.pop(connection, None)
        if self._agents.pop(connection, None) is not None:
            self._selector.unregister(connection)
            connection.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _spawn(self, request: dict[str, Any]) -> dict[str, Any]:
        known = self._record(request["id"])
        if known is not None and known["pid"]:
            return {"run": known}  # a repeated request, whose response was lost
        # Recorded before the start: whatever happens in between, no process is unknown.
        self._write({"id": request["id"], "pid": 0, "born": 0, "started_at": time.time()})  # noqa: TID251
        log = OutputLog(
            request["log"],
            most_bytes=request.get("log_bytes", _LOG_BYTES),
            files=request.get("log_files", _LOG_FILES),
        )
        talks = {"stdin": bool(request.get("stdin")), "tty": bool(request.get("tty"))}
        ends: terminals.Ends | None = None
        try:
            ends = terminals.Ends(**talks, user=request.get("user"))
            if request.get("home"):
                _make_folder(request["home"])
            started = spawn.start(process_info.marked(request), ends)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            log.close()
            if ends is not None:
                ends.close()
            with contextlib.suppress(OSError):
                self._runs.drop(request["id"])
            return {"failed": _why(problem, request)}
        ends.let_go()
        child = Child(request, started, log, into=ends.into)
        self._children[child.id] = self._by_pid[child.pid] = child
        for number, (stream, _) in child.pipes.items():
            os.set_blocking(number, False)
            self._selector.register(number, selectors.EVENT_READ, lambda fd, c=child, s=stream: self._pump(fd, c, s))
        record = {
            "id": child.id,
            "pid": child.pid,
            "born": process_info.start_ticks(child.pid),
            "started_at": time.time(),  # noqa: TID251 - this program has no clock to be given
            "cgroups": child.cgroups,
        }
        with contextlib.suppress(OSError):
            self._write(record)
        return {"run": record}

    def _signal(self, request: dict[str, Any]) -> dict[str, Any]:
        child = self._children.get(request["id"])
        number = request["signal"]
        if child is None:
            return {"signalled": self._signal_lost(request["id"], number)}
        if child.status is not None:
            return {"signalled": False}
        child.asked = True
        if number == signal.SIGKILL:
            self._kill_all(child.id, child.pid, child.cgroups)
        else:
            # To the first process only, as in containers: it stops its own children.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)
        return {"signalled": True}

    def _signal_lost(self, run: str, number: int) -> bool:
        """A run of a killed shim: not our child, but known by its pid and start time."""
        record = self._record(run)
        if (
            record is None
            or "code" in record
            or not record["pid"]
            or process_info.start_ticks(record["pid"]) != record["born"]
        ):
            return False
        if number == signal.SIGKILL:
            self._kill_all(run, record["pid"], record.get("cgroups") or [])
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record["pid"], number)
        return True

    def _list(self, _: dict[str, Any]) -> dict[str, Any]:
        found = []
        for text in self._runs.texts():
            record = json.loads(text)
            if "code" not in record and record["id"] not in self._children:
                # Started by a killed shim: it cannot be waited for, only checked.
                record["lost"] = True
                record["alive"] = bool(record["pid"]) and process_info.start_ticks(record["pid"]) == record["born"]
            elif "code" in record and is_lost(
                record, shim_process=self._name, predecessor_ended_at=self._predecessor_ended_at
            ):
                record["lost"] = True
            found.append(record)
        return {"runs": found}

    def _forget(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["id"] not in self._children:
            self._runs.drop(request["id"])
        return {}

    def _attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Files for reading a run's output from now on, and for writing its input."""
        child = self._children.get(request["id"])
        if child is None or child.status is not None:
            return {}
        files: dict[str, int] = {}
        try:
            for stream, _ in child.pipes.values():
                # A reader that has left a silent run is noticed only here.
                listeners = child.listeners[stream] = run_output.with_reader(child.listeners.get(stream, []))
                files[stream], told = os.pipe()
                listeners.append(told)
                os.set_blocking(told, False)
                with contextlib.suppress(OSError):
                    fcntl.fcntl(told, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                if child.unseen:
                    run_output.send_to_readers([told], bytes(child.unseen))
            child.unseen = None
            if child.into is not None:
                files["terminal" if child.tty else "stdin"] = os.dup(child.into)
        except OSError:
            for file in files.values():
                os.close(file)
            raise
        return {"names": list(files), "files": list(files.values())}

    def _end_input(self, request: dict[str, Any]) -> dict[str, Any]:
        child = self._children.get(request["id"])
        if child is None or child.into is None:
            return {}
        if child.tty:
            with contextlib.suppress(OSError):
                os.write(child.into, terminals.END_OF_INPUT)
        else:
            os.close(child.into)
            child.into = None
        return {}

    def _end(self, _: dict[str, Any]) -> dict[str, Any]:
        self._done = not self._children
        return {"ended": self._done}

    # --- children -----------------------------------------------------------------------------------------------------

    def _pump(self, fd: Any, child: Child, stream: str) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            child.log.write(stream, data)
            if child.listeners:
                run_output.send_to_readers(child.listeners.get(stream, []), data)
            elif child.unseen is not None:
                child.unseen += data
                del child.unseen[:-_CHUNK]
            return
        self._let_go(fd, child)
        self._settle(child)

    def _let_go(self, fd: int, child: Child) -> None:
        self._selector.unregister(fd)
        stream, pipe = child.pipes.pop(fd)
        pipe.close()
        for listener in child.listeners.pop(stream, ()):
            os.close(listener)

    def _drain(self, fd: int, child: Child) -> None:
        """Read what is left in a pipe, without waiting for other processes that may hold it open."""
        pump = self._selector.get_key(fd).data
        # A pipe holds at most a megabyte; a process that refills it is no longer part of the run.
        for _ in range(_PIPE_BYTES // _CHUNK):
            if fd not in child.pipes or not run_output.has_more(fd):
                break
            pump(fd)
        if fd in child.pipes:
            self._let_go(fd, child)

    def _reap(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            wake.recv(_CHUNK)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._by_pid.pop(pid, None)
            if child is not None:
                child.status, child.finished_at = status, time.time()  # noqa: TID251
                # No process of it may stay behind.
                self._kill_all(child.id, child.pid, child.cgroups)
                for fd in list(child.pipes):
                    self._drain(fd, child)
                self._settle(child)

    def _settle(self, child: Child) -> None:
        """Report the end of a run once it and its output have ended."""
        if child.status is None or child.pipes or self._children.get(child.id) is not child:
            return
        child.log.close()
        if child.into is not None:
            os.close(child.into)
            child.into = None
        del self._children[child.id]
        oom = process_info.ran_out_of_memory(child.memory)
        for folder in child.cgroups:
            # A cgroup whose last processes are dying stays until the run is forgotten.
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106 - as above
        code = os.waitstatus_to_exitcode(child.status)
        record = self._record(child.id) or {"id": child.id}
        record |= {
            "code": code if code >= 0 else 128 - code,
            "signal": -code if code < 0 else 0,
            "oom": oom,
            "asked": child.asked,
            "nursery": self._name,
            "finished_at": child.finished_at,
        }
        # Recorded if possible; reported in any case.
        with contextlib.suppress(OSError):
            self._write(record)
        for connection in list(self._agents):
            self._send(connection, {"exit": record})

    def _kill_all(self, run: str, pid: int, cgroups: list[str]) -> None:
        """Kill a run with all its processes: its process group, its cgroups, its orphans."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        for folder in cgroups:
            for _ in range(10):
                members = process_info.members(folder)
                if not members:
                    break
                for member in members:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(member, signal.SIGKILL)
        if not cgroups:
            self._kill_left_behind(run)

    def _kill_left_behind(self, run: str) -> None:
        """Without cgroups: kill the orphans of a run, which became our children and may lead their own session.

        Their environment names the run. Orphans without it are killed with the last run.
        """
        try:
            found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return
        others = {child.id for child in self._by_pid.values()} - {run}
        for pid in map(int, found):
            if pid in self._by_pid:
                continue
            origin = process_info.run_of(pid)
            if (origin and origin not in others) or not others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _record(self, run: str) -> dict[str, Any] | None:
        text = self._runs.get(run)
        found: dict[str, Any] | None = None if text is None else json.loads(text)
        return found

    def _write(self, record: dict[str, Any]) -> None:
        self._runs.put(record["id"], _encode(record).encode())


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o755)  # noqa: PTH102 - half of what the library's paths cost, for each task
    except FileExistsError:
        pass
    except FileNotFoundError:
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)


def _why(problem: Exception, request: dict[str, Any]) -> str:
    if isinstance(problem, FileNotFoundError):
        missing = problem.filename or request["argv"][0]
        return f'exec: "{missing}": no such file or directory'
    if isinstance(problem, PermissionError):
        return f'exec: "{problem.filename or request["argv"][0]}": permission denied'
    return str(problem)


def _remove(request: dict[str, Any]) -> dict[str, Any]:
    """Remove an empty folder; returns whether it is gone."""
    try:
        Path(request["path"]).rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return {"removed": False}
    return {"removed": True}


def main() -> None:
    """Serve in a folder, unless another shim does."""
    folder = Path(sys.argv[1])
    spawn.keep_to_ourselves()
    # Loaded objects stay: forks then share their pages, because the garbage collector does not touch them.
    gc.freeze()
    path = folder / _LOCK
    ended_at = path.stat().st_mtime if path.exists() else 0.0
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        Shim(folder, predecessor_ended_at=ended_at).run()


if __name__ == "__main__":
    main()
