"""Masters and workers as processes that a test can kill, pause and start again.

    with ProcessCluster(folder, store_url=url) as cluster:
        first, second = cluster.master("m1"), cluster.master("m2")
        worker = cluster.worker("w1", "--resources", "cpu=4")
        first.kill()                        # SIGKILL

A process may run on its own simulated machine (`rota.testing.hosts`): then `inside` is the prefix of its command
line. A killed worker leaves its tasks running; `power_off` ends them, too.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import instance_lock, system
from rota.testing.servers import keeper
from rota.testing.servers.processes import free_port

#: Tasks of workloads write to folders that only this user may enter.
_AS_ROOT: Final = ("--run-as", "root") if os.geteuid() == 0 else ()
#: Four processes at once took 100 s on two cores at a load of 14.
_START_S: Final = 300.0
_STOP_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.02


class Member:
    """One process of the cluster, started at its construction."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        ready: str,
        inside: Sequence[str] = (),
        wait: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name: Final = name
        self.folder: Final = folder
        self._inside = tuple(inside)
        self._command: Final = (sys.executable, "-m", "rota", *command)
        self._log: Final = folder / "output.log"
        self._ready: Final = ready
        self._clock: Final = system.SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self._begun_at = 0
        self.start(wait=wait)

    def start(self, *, wait: bool = True, inside: Sequence[str] = ()) -> None:
        """Start it, and by default wait until it is ready; AssertionError with its output if it exits instead.

        `inside` is the new prefix if it moves to another machine.
        """
        if self._process is not None:
            self._process.wait(_STOP_S)  # it may have ended with its machine
        self._inside = tuple(inside) or self._inside
        with self._log.open("ab") as output:
            self._begun_at = output.tell()
            command = (*self._inside, *self._command)
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                # Its cluster does not know it yet, and would leave it running.
                self.kill()
                raise

    def wait_ready(self) -> None:
        """Wait until it reports that it is ready; AssertionError with its output if it exits instead."""
        assert self._process is not None
        deadline = self._clock.monotonic() + _START_S
        while self._ready not in self.output:
            assert self._process.poll() is None, f"{self.name} ended: {self.output}"
            assert self._clock.monotonic() < deadline, f"{self.name} does not get ready: {self.output}"
            self._clock.block(_LOOK_AGAIN_S)

    @property
    def running(self) -> bool:
        """Whether it exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it runs and has reported that it is ready."""
        return self.running and self._ready in self.output

    @property
    def output(self) -> str:
        """Its output since the start."""
        return self._log.read_bytes()[self._begun_at :].decode(errors="replace")

    def wait(self) -> int:
        """Wait until it exits; its exit code."""
        assert self._process is not None
        return self._process.wait(_STOP_S)

    def stop(self) -> None:
        """Ask it to end, and wait for that; AssertionError if it does not, or not well."""
        if not self.running:
            return
        assert self._process is not None
        self.resume()
        os.kill(self.pid, signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not stop: {self.output}") from None
        assert code == 0, self.output

    def kill(self) -> None:
        """Kill it; its child processes continue."""
        if self.running:
            assert self._process is not None
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait(_STOP_S)

    def pause(self) -> None:
        """Suspend it until it is resumed."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it."""
        assert self._process is not None
        os.kill(self.pid, signal.SIGCONT)
        # Its wrapper process is suspended with it.
        os.kill(self._process.pid, signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The program's own pid: its wrapper process waits for it."""
        assert self._process is not None
        pid = self._process.pid
        while sys.executable not in _words(pid)[:1]:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if not children:
                return pid
            pid = int(children[0])
        return pid


class Master(Member):
    """A `rota master`."""

    @property
    def identity(self) -> str:
        """Its identity in leases."""
        return instance_lock.holder(self.folder / "master.lock")

    def endpoint(self) -> Endpoint:
        """The administrator's endpoint."""
        return kubeconfig.load(self.folder / "kubeconfig", clock=system.SystemClock())


class Worker(Member):
    """A `rota worker`, with its tasks."""

    def power_off(self) -> None:
        """Kill it with all its tasks, as a power failure does."""
        self.kill()
        end_tasks(self.folder)
        _remove_groups(self.name, self.folder)


class ProcessCluster:
    """Masters on one store, and workers that have joined them. Leaving the context ends them all, and every task."""

    def __init__(self, folder: Path, *, store_url: str) -> None:
        self._folder: Final = folder
        self._store_url: Final = store_url
        self.masters: Final[list[Master]] = []
        self.workers: Final[list[Worker]] = []
        self._invitation: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.power_off()
        for master in self.masters:
            master.kill()

    def master(self, name: str, *options: str, inside: Sequence[str] = (), host: str = "127.0.0.1") -> Master:
        """Start a further master; all have the keys of the first."""
        command = ("master", "--store", self._store_url, "--data", str(self._folder / name))
        keys = self._folder / "keys.yaml"
        # The same port at every start, since workers have it.
        port = str(free_port())
        made = Master(
            name,
            (*command, "--host", host, "--port", port, "--encryption-keys", str(keys), *options),
            folder=self._folder / name,
            ready="This master is up",
            inside=inside,
        )
        self.masters.append(made)
        self._invitation = ()
        return made

    def worker(self, name: str, *options: str, inside: Sequence[str] = (), wait: bool = True) -> Worker:
        """Start a further worker with the addresses of all masters."""
        made = Worker(
            name,
            (
                "worker",
                *self.invitation(),
                "--name",
                name,
                "--data",
                str(self._folder / name),
                "--port",
                "0",
                *_AS_ROOT,
                *options,
            ),
            folder=self._folder / name,
            ready="This worker is ready",
            inside=inside,
            wait=wait,
        )
        self.workers.append(made)
        return made

    def invitation(self) -> tuple[str, ...]:
        """The options by which a worker joins."""
        if not self._invitation:
            made = self.rota("token", "create", "--json")
            servers = ",".join(one.endpoint().server for one in self.masters)
            self._invitation = ("--join", servers, "--token", made["token"], "--ca-hash", made["ca_hash"])
        return self._invitation

    def rota(self, *arguments: str) -> Any:
        """The JSON output of a `rota` command about this cluster."""
        config = self.masters[0].folder / "kubeconfig"
        done = subprocess.run(
            [sys.executable, "-m", "rota", *arguments, "--kubeconfig", str(config)],
            capture_output=True,
            check=False,
            timeout=_START_S,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def endpoint(self) -> Endpoint:
        """The administrator's endpoint, with the addresses of all masters."""
        first, *others = [one.endpoint() for one in self.masters]
        return Endpoint(
            server=first.server,
            fallbacks=tuple(one.server for one in others),
            certificate_authority=first.certificate_authority,
            client_certificate=first.client_certificate,
            client_key=first.client_key,
        )


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def end_tasks(folder: Path) -> None:
    """End all tasks of workers whose folders are in this one, or are it."""
    for pid in _nurseries(folder):
        keeper.kill(pid)


def _nurseries(folder: Path) -> list[int]:
    """The shims of the workers in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = _words(int(entry.name))
                if any(one.endswith(".shim") for one in words) and any(
                    Path(one).is_relative_to(folder) for one in words if one.startswith("/")
                ):
                    found.append(int(entry.name))
    return found


def _remove_groups(node: str, folder: Path) -> None:
    """Remove the control groups that a restarted worker would use again."""
    mark = zlib.crc32(str((folder / "runtime").absolute()).encode())
    # Other processes create and remove groups meanwhile; the walk tolerates that.
    for place, groups, _ in os.walk("/sys/fs/cgroup"):
        if f"rota-{node}-{mark:08x}" in groups:
            base = Path(place, f"rota-{node}-{mark:08x}")
            for group in (*(one for one in base.iterdir() if one.is_dir()), base):
                with contextlib.suppress(OSError):
                    group.rmdir()
