"""One cluster for the tests of Python's side: a `rota up` with two workers, as a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import rota
from rota.testing import process_cluster

ROTA = str(Path(sys.executable).with_name("rota"))


class Cluster(NamedTuple):
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def rota(self, *arguments: str) -> str:
        """A command, run to its end; what it prints."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run([ROTA, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    command = [ROTA, "up", "--workers", "2", "--data", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
            yield Cluster(folder)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process_cluster.end_tasks(folder)


@pytest.fixture(scope="session")
def client(cluster: Cluster) -> Iterator[rota.Client]:
    with rota.Client(cluster.kubeconfig) as made:
        yield made
