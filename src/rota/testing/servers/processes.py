"""What every private server has: a folder, a process that cannot be left behind, and ways to hurt it.

A `Server` starts when it is entered and is gone, folder and all, when it is left. In between a test may
`stop`, `kill` (-9, the whole family at once), `pause` and `resume` it, and `start` it again with the data it
had. Everything blocks: fixtures, sub-processes and benchmarks use it alike, and asynchronous tests call it
through a thread.
"""

import abc
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.kit.system import SystemClock
from rota.testing.servers import keeper

_START_S: Final = 90.0
_STOP_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.005
_PORT_TRIES: Final = 5
#: Where to look for free ports: below the ports that the kernel gives to outgoing connections, so that a
#: stopped server finds its port free when it comes back.
_PORTS: Final = range(12_000, 32_000)
#: A socket's path may have 107 characters; the folder must leave room for the rest.
_FOLDER_LENGTH: Final = 60


class ServerError(Exception):
    """A private server did not start or stop; the message ends with the last lines of its log."""


class Server(abc.ABC):
    """One private server. Subclasses say which program it is, whether it answers and what its URL is."""

    #: Asks the server to stop in an orderly way, now.
    stop_signal: signal.Signals = signal.SIGTERM

    def __init__(self, kind: str, *, account: pwd.struct_passwd | None = None) -> None:
        """`account`: who the server runs as, if not as us."""
        self._kind = kind
        self._account = account
        self._started_before = False
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self.folder = _short_folder(kind)
        self.own(self.folder)
        self.log_file = self.folder / "log"
        self.choose_ports()

    @abc.abstractmethod
    def choose_ports(self) -> None:
        """Take new ports: called before the first start, and again if another program was faster."""

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """What `--store` takes."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Whether clients are served."""

    @property
    def running(self) -> bool:
        """Whether the process is there, be it paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        self._must_run()
        return self._pid

    def start(self) -> None:
        """Start the server on the data it has and wait until it answers."""
        if self.running:
            raise ServerError(f"{self._kind} already runs")
        for _ in range(_PORT_TRIES):
            if self._comes_up():
                self._started_before = True
                return
            # Later the port is a promise to the clients; the first time any will do.
            if self._started_before or "address already in use" not in self.log_tail().lower():
                break
            self.choose_ports()
        raise ServerError(f"{self._kind} ended while it started:\n{self.log_tail()}")

    def stop(self) -> None:
        """Stop in an orderly way; the data stays. A server that does not run is already stopped."""
        if not self.running:
            self._release()  # it may have ended by itself
            return
        self.resume()
        os.kill(self._pid, self.stop_signal)
        if not self._ended_within(_STOP_S):
            self.kill()
            raise ServerError(f"{self._kind} had to be killed; it did not stop:\n{self.log_tail()}")
        self._release()

    def kill(self) -> None:
        """Kill -9, with all its children in one blow, as a power failure would; the data stays."""
        if not self.running:
            return
        victims = keeper.kill(self._pid)
        if not self._ended_within(_STOP_S):
            raise ServerError(f"{self._kind} survived being killed")
        while any(keeper.family(victim) for victim in victims):
            self._clock.block(_LOOK_AGAIN_S)
        self._release()

    def restart(self) -> None:
        """Stop and start; clients lose their connections, nothing else."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze every process of the server: connections stay open and nobody answers."""
        self._signal_family(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal_family(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        return "(no log)"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def own(self, path: Path) -> None:
        """Give a file to the server's account."""
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _comes_up(self) -> bool:
        self._launch()
        deadline = self._clock.monotonic() + _START_S
        while not self.answers():
            if self._ended_within(_LOOK_AGAIN_S):
                self._release()
                return False
            if self._clock.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self._kind} does not answer after {_START_S:.0f} s:\n{self.log_tail()}")
        return True

    def _launch(self) -> None:
        user = "-" if self._account is None else f"{self._account.pw_uid}:{self._account.pw_gid}"
        arguments = [str(os.getpid()), user, str(self.folder), str(self.log_file), *self.command()]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A Ctrl-C in the terminal is for the owner, who then closes us in order.
            start_new_session=True,
            env=environment(),
        )
        assert self._process.stdout is not None
        first_line = self._process.stdout.readline()
        if not first_line.strip().isdigit():
            self._release()
            raise ServerError(f"{self._kind} cannot be run: {' '.join(self.command())}")
        self._pid = int(first_line)

    def _ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def _release(self) -> None:
        if self._process is not None:
            with self._process:  # closes the pipes and reaps the keeper
                pass
            self._process = None

    def _signal_family(self, number: signal.Signals) -> None:
        self._must_run()
        # The parent first: stopped, it has no further child behind our back.
        os.kill(self._pid, number)
        for pid in keeper.family(self._pid)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _must_run(self) -> None:
        if not self.running:
            raise ServerError(f"{self._kind} does not run")


def free_port() -> int:
    """A loopback port that nobody listens on."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _short_folder(kind: str) -> Path:
    parent = tempfile.gettempdir()
    if len(parent) > _FOLDER_LENGTH:
        parent = "/tmp"  # noqa: S108  # mkdtemp makes a folder of our own in it
    return Path(tempfile.mkdtemp(prefix=f"rota-{kind}-", dir=parent))


def environment() -> dict[str, str]:
    """Ours, without the variables by which a user's settings would reach the private server."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "ETCD"))}
