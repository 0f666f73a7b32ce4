"""What tests of verbs share: one API server per process with `rota` run in this process against it, and one cluster."""

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from rota.cli import main
from rota.testing.live import LiveServer

ROTA = str(Path(sys.executable).with_name("rota"))


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def cells(self) -> list[list[str]]:
        """The words of each line of output."""
        return [line.split() for line in self.lines]


Rota: TypeAlias = Callable[..., Said]


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """An API server without controllers, scheduler or workers; tests keep to namespaces of their own."""
    with LiveServer() as live:
        yield live


@pytest.fixture
def namespace(server: LiveServer) -> str:
    return server.namespace("cli")


@pytest.fixture
def rota(server: LiveServer, capfd: pytest.CaptureFixture[str]) -> Rota:
    """Runs a command at the server."""

    def run(*arguments: str) -> Said:
        capfd.readouterr()
        code = main.main([*arguments, "--server", server.url])
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return run


class Cluster(NamedTuple):
    """A `rota up` with one worker, as a process of its own."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}

    def rota(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command, run to its end; in this process, which spares it its start."""
        said, complained = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(one, write_through=True) for one in (said, complained))
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.setenv("KUBECONFIG", self.environment["KUBECONFIG"])
            code = main.main(arguments)
        return subprocess.CompletedProcess(arguments, code, said.getvalue().decode(), complained.getvalue().decode())

    @contextlib.contextmanager
    def start(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """A command, begun; it does not outlive the block."""
        # who runs the tests may have been told to outlive its terminal, and children inherit that
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        try:
            started = subprocess.Popen(
                [ROTA, *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.signal(signal.SIGHUP, before)
        with started as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One machine's cluster, whose one worker is `worker-1`."""
    folder = tmp_path_factory.mktemp("cluster")
    command = [ROTA, "up", "--workers", "1", "--data", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
        found = Cluster(folder)
        try:
            yield found
            # Tasks outlive the cluster otherwise.
            found.rota("delete", "pods", "--all", "--now")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def read_until(file: int, what: bytes) -> bytes:
    """What a terminal shows until something stands there."""
    shown = b""
    while what not in shown:
        ready, _, _ = select.select([file], [], [], 30)
        assert ready, shown
        shown += os.read(file, 4096)
    return shown
