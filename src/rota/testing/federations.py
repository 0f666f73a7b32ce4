"""A federation's control plane as a process, and helpers to wait for objects.

with FederationProcess(folder) as federation:
    federation.rota("federation", "join", "m1", "--member", str(member_folder / "kubeconfig"))
    async with federation.client() as client:
        await until(client, kinds.CLUSTERS, "m1", lambda cluster: meta.is_condition_true(cluster or {}, "Ready"))
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.client import client_factory, kubeconfig
from rota.client.paths import Target
from rota.client.verbs import Client, Object, Selection
from rota.kit import system
from rota.testing import process_cluster
from rota.testing.servers.processes import free_port

_START_S: Final = 300.0
_STOP_S: Final = 30.0
_PATIENCE_S: Final = 90.0
_LOOK_AGAIN_S: Final = 0.05
_WATCH_S: Final = 5


class RotaProcess:
    """A `rota` command that serves an API from its own folder, to be killed and started again."""

    def __init__(self, folder: Path, arguments: Sequence[str], ready: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder: Final = folder
        self._command: Final = (sys.executable, "-m", "rota", *arguments, "--data", str(folder))
        self._ready: Final = ready
        self._log: Final = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    def start(self, *arguments: str) -> None:
        """Start, and return once it serves; AssertionError with its output if it does not."""
        with self._log.open("wb") as output:
            command = (*self._command, *arguments)
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        clock = system.SystemClock()
        deadline = clock.monotonic() + _START_S
        while self._ready not in self.output:
            assert self._process.poll() is None, self.output
            assert clock.monotonic() < deadline, self.output
            clock.block(_LOOK_AGAIN_S)

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOP_S)
        self._process = None

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        assert self._process is not None
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it does not stop: {self.output}") from None
        self._process = None
        assert code == 0, self.output

    @property
    def output(self) -> str:
        """Its output since the start."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def rota(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call a command of Rota with the administrator's kubeconfig."""
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}
        command = (sys.executable, "-m", "rota", *arguments)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S * 2, check=False
        )

    def client(self) -> contextlib.AbstractAsyncContextManager[Client]:
        """A client as its administrator."""
        return client_of(self.folder / "kubeconfig")


class FederationProcess(RotaProcess):
    """`rota federation up`, which polls its members every second, with a threshold of 0."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        usual = ("federation", "up", "--port", "0", "--every", "1s", "--threshold", "0", "--taint-eviction", "on")
        super().__init__(folder, (*usual, *arguments), "The federation is up.")


class MemberProcess(RotaProcess):
    """`rota up` with one worker, at a port that it keeps."""

    def __init__(self, folder: Path) -> None:
        arguments = ("up", "--port", str(free_port()), "--workers", "1")
        super().__init__(folder, arguments, "Rota is up.")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        # tasks outlive their worker, as they should, but not the test
        process_cluster.end_tasks(self.folder)


class AgentProcess(RotaProcess):
    """`rota federation-agent` for a member, with short times: it stops exclusive workloads after four seconds."""

    def __init__(self, folder: Path, name: str, federation: FederationProcess, member: MemberProcess) -> None:
        usual = (
            *("--every", "1s", "--threshold", "0", "--unschedulable-after", "2s"),
            *("--renew-every", "1s", "--fence-after", "4s"),
        )
        super().__init__(folder, ("federation-agent", *usual), "The agent of cluster")
        self._name: Final = name
        self._federation: Final = federation
        self._member: Final = member

    def __enter__(self) -> Self:
        invitation = self.folder / "invitation"
        invited = self._federation.rota("federation", "token", self._name, "--label", f"name={self._name}")
        assert invited.returncode == 0, invited.stderr
        invitation.write_text(invited.stdout)
        register = ("federation", "register", self._name, "--invitation", str(invitation), "--data", str(self.folder))
        registered = self._member.rota(*register)
        assert registered.returncode == 0, registered.stderr
        return super().__enter__()


@contextlib.asynccontextmanager
async def client_of(path: Path) -> AsyncIterator[Client]:
    """A client by a kubeconfig."""
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(path, clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        yield client


async def until(
    client: Client,
    target: Target,
    name: str,
    holds: Callable[[Object | None], bool],
    *,
    namespace: str = "",
    patience_s: float = _PATIENCE_S,
) -> Object | None:
    """Wait until something is true of an object (None if there is none), by watching it."""
    selection = Selection(fields=f"metadata.name={name}")
    last: Object | None = None
    try:
        async with asyncio.timeout(patience_s):
            while True:
                listing = await client.list(target, namespace=namespace, selection=selection)
                last = listing.items[0] if listing.items else None
                if holds(last):
                    return last
                async with client.watch(
                    target,
                    namespace=namespace,
                    selection=selection,
                    resource_version=listing.resource_version,
                    bookmarks=False,
                    timeout_s=_WATCH_S,
                ) as events:
                    async for _ in events:
                        break
    except TimeoutError:
        raise AssertionError(f"not within {patience_s:.0f} s; the last {name} was {last}") from None
