"""kubectl exec, attach, logs -f, cp, port-forward and top, through local and remote workers."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.stream
import pytest

from rota.testing.servers import binaries
from rota.testing.servers.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

ROTA = str(Path(sys.executable).with_name("rota"))
PATIENCE_S = 60.0


class Cluster:
    """A running cluster and a kubectl for it."""

    def __init__(self, config: Path, *, local: bool) -> None:
        self.config = config
        self.local = local
        self.newest = binaries.kubectls()[-1]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.config), "HOME": str(self.config.parent / "kubectl")}

    def run(self, *arguments: str, program: Path | None = None, text: str | None = None) -> tuple[int, str, str]:
        """The code, the output and the errors of a command."""
        done = subprocess.run(
            [str(program or self.newest), *arguments],
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout, done.stderr

    def succeed(self, *arguments: str) -> str:
        """The output of a command that must not fail."""
        code, said, complaint = self.run(*arguments)
        assert code == 0, complaint
        return said

    def start(self, name: str, script: str) -> None:
        self.succeed("run", name, "--image=none", "--restart=Never", "--command", "--", "sh", "-c", script)
        self.succeed("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={PATIENCE_S / 2:.0f}s")


@contextlib.contextmanager
def _process(*command: str, until: str) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(until in line for line in iter(process.stdout.readline, ""))
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextlib.contextmanager
def _worker_here(folder: Path) -> Iterator[Path]:
    """`rota up`: a worker in the server's own process."""
    with _process(ROTA, "up", "--workers", "1", "--data", str(folder), "--port", "0", until="Rota is up"):
        yield folder / "kubeconfig"


@contextlib.contextmanager
def _worker_elsewhere(folder: Path) -> Iterator[Path]:
    """A worker that has joined."""
    config = folder / "kubeconfig"
    with _master(folder, folder):
        joining = subprocess.run(
            [ROTA, "token", "create", "--join-command", "--kubeconfig", str(config)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        worker = (ROTA, *joining[1:], "--name", "w1", "--data", str(folder / "worker"), "--port", "0")
        with _process(*worker, until="This worker is ready"):
            yield config


@contextlib.contextmanager
def _worker_of_another_master(folder: Path) -> Iterator[Path]:
    """A worker of another server than the one that is called."""
    first, second = folder / "first", folder / "second"
    with _master(folder, first, "--workers", "1"):
        keys = ("--encryption-keys", str(first / "encryption-keys.yaml"))
        with _master(folder, second, *keys):
            yield second / "kubeconfig"


def _master(folder: Path, data: Path, *options: str) -> contextlib.AbstractContextManager[None]:
    where = ("--store", f"sqlite:///{folder}/rota.db", "--data", str(data), "--host", "127.0.0.1", "--port", "0")
    return _process(ROTA, "master", *where, *options, until="This master is up")


@pytest.fixture(scope="module", params=[_worker_here, _worker_elsewhere, _worker_of_another_master])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with request.param(tmp_path_factory.mktemp("cluster")) as config:
        made = Cluster(config, local=request.param is _worker_here)
        try:
            made.start("web", "echo begun; while sleep 0.1; do [ -e stop ] && break; done; echo ended; exec sleep 1000")
            yield made
        finally:
            made.succeed("delete", "pods", "--all", "--grace-period=1", f"--timeout={PATIENCE_S / 2:.0f}s")


def test_a_command_is_run_with_its_streams_and_its_code(cluster: Cluster) -> None:
    script = "cat; echo bad >&2; exit 3"
    code, said, complaint = cluster.run("exec", "-i", "web", "--", "sh", "-c", script, text="from here\n")
    assert (code, said) == (3, "from here\n")
    assert complaint == "bad\ncommand terminated with exit code 3\n"


def test_old_versions_get_a_warning_with_the_replacement(cluster: Cluster) -> None:
    # What versions say differs on their way to the server; behind it, one is as good as another.
    programs = binaries.kubectls() if cluster.local else binaries.kubectls()[-1:]
    for program in programs:
        told = json.loads(cluster.run("version", "--client", "--output=json", program=program)[1])
        minor = int(re.sub(r"\D", "", told["clientVersion"]["minor"]))
        code, said, complaint = cluster.run("exec", "web", "--", "echo", "hi", program=program)
        if minor >= 30:
            assert (code, said) == (0, "hi\n"), (program, complaint)
        else:
            assert code == 1
            assert "SPDY is not spoken here, but WebSocket: use kubectl 1.30 or newer" in complaint


def test_what_is_not_there_is_said_to_be_missing(cluster: Cluster) -> None:
    assert 'pods "nobody" not found' in cluster.run("exec", "nobody", "--", "true")[2]
    assert "container none is not valid for pod web" in cluster.run("exec", "web", "-c", "none", "--", "true")[2]
    code, _, complaint = cluster.run("exec", "web", "--", "no-such-program")
    assert code == 127
    assert "no-such-program" in complaint


def test_a_terminal_behaves_like_one(cluster: Cluster) -> None:
    ours, its = pty.openpty()
    os.write(ours, b"stty size; tty; exit 4\n")
    said = b""
    command = [str(cluster.newest), "exec", "-it", "web", "--", "sh"]
    with subprocess.Popen(command, env=cluster.environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                said += piece
        assert process.wait(PATIENCE_S) == 4
    os.close(ours)
    assert re.search(rb"\n/dev/pts/\d+\r\n", said), said


def test_files_are_copied_in_and_out(cluster: Cluster, tmp_path: Path) -> None:
    data = os.urandom(2 << 20)
    (tmp_path / "sent").write_bytes(data)
    cluster.succeed("cp", str(tmp_path / "sent"), f"web:{tmp_path}/there")
    assert (tmp_path / "there").read_bytes() == data
    cluster.succeed("cp", f"web:{tmp_path}/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_the_python_client_talks_to_containers_too(cluster: Cluster) -> None:
    configuration: Any = kubernetes.client.Configuration()
    # half of what this library has is typed, and by halves
    loading: Any = kubernetes.config
    loading.load_kube_config(str(cluster.config), client_configuration=configuration)
    with kubernetes.client.ApiClient(configuration) as client:
        talk: Any = kubernetes.stream.stream(
            kubernetes.client.CoreV1Api(client).connect_get_namespaced_pod_exec,
            "web",
            "default",
            command=["sh", "-c", "read line; echo got $line; exit 6"],
            stdin=True,
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        talk.write_stdin("this\n")
        talk.run_forever(timeout=PATIENCE_S)
        assert (talk.read_stdout(), talk.returncode) == ("got this\n", 6)
        talk.close()
        talk.sock.sock.close()


def test_logs_are_followed_while_they_come(cluster: Cluster) -> None:
    command = [str(cluster.newest), "logs", "-f", "web"]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        cluster.succeed("exec", "web", "--", "touch", "stop")
        assert process.stdout.readline() == "ended\n"
        process.terminate()


def test_what_a_pod_says_is_seen_by_attaching(cluster: Cluster) -> None:
    cluster.start("talker", "while sleep 0.1; do echo again; done")
    command = [str(cluster.newest), "attach", "talker"]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "again\n"
        process.terminate()


def test_a_pod_is_run_with_this_input_and_removed_afterwards(cluster: Cluster) -> None:
    command = ["run", "reader", "-i", "--rm", "--quiet", "--restart=Never", "--image=none", "--pod-running-timeout=30s"]
    done = subprocess.run(
        [str(cluster.newest), *command, "--command", "--", "sh", "-c", "sleep 2; while read x; do echo got $x; done"],
        env=cluster.environment,
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.stdout.replace('pod "reader" deleted\n', ""), done.returncode) == ("got one\ngot two\n", 0), done


def test_ports_are_forwarded(cluster: Cluster) -> None:
    port = free_port()
    server = f"cd /; exec {sys.executable} -m http.server {port} --bind 127.0.0.1"
    cluster.start("server", f"{server} 2>&1")
    for _ in range(int(PATIENCE_S / 0.1)):
        if _listens(port):
            break
        time.sleep(0.1)
    command = [str(cluster.newest), "port-forward", "pod/server", f":{port}"]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert said is not None
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{said[1]}/", timeout=PATIENCE_S) as answer:
                assert b"<html" in answer.read()
        process.terminate()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_what_is_used_is_shown(cluster: Cluster) -> None:
    ((node, *_),) = (line.split() for line in cluster.succeed("top", "nodes", "--no-headers").splitlines())
    assert node == "w1" or node.endswith("-1")
    shown = {line.split()[0]: line.split()[1:] for line in cluster.succeed("top", "pods", "--no-headers").splitlines()}
    cpu, memory = shown["web"]
    assert cpu.endswith("m")
    assert re.fullmatch(r"[1-9]\d*Mi", memory)
    assert "podmetrics" in cluster.succeed("get", "pods.metrics.k8s.io", "web", "-o", "name")
    assert cluster.run("top", "pods", "-l", "run=nobody")[2].strip() == "No resources found in default namespace."
