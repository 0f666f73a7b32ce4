"""A stock control plane for a benchmark: kube-apiserver with its etcd, and further programs.

    with stock.plane(folder) as plane, plane.scheduler():
        ...                                 # plane.kubeconfig

The programs are those that `scripts/build-kubernetes` has built. There is no authorization, writes are durable, and
clients of the plane's programs have no rate limit, as in upstream's scheduler_perf. All of it is removed at the end.
"""

import contextlib
import http.client
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from rota.kit.errors import UserError

#: Requests per second that a scheduler may send, ours and the stock one: high enough that it does not limit either.
RATE: Final = 5000
_START_S: Final = 60.0
_STOP_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.05


class NotBuilt(UserError):
    """This machine has no stock programs."""


def program(name: str) -> Path:
    """One of the stock programs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), cache / "rota" / "kubernetes" / "current"):
        if folder and os.access(found := Path(folder, name), os.X_OK):
            return found
    raise NotBuilt(f"there is no stock {name} to measure beside", "scripts/build-kubernetes builds it")


class Plane:
    """An API server that runs."""

    def __init__(self, folder: Path, port: int, token: str) -> None:
        self._folder: Final = folder
        self.port: Final = port
        self.url: Final = f"https://127.0.0.1:{port}"
        self.certificate: Final = folder / "certificates" / "apiserver.crt"
        self.token: Final = token

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        path = self._folder / "kubeconfig"
        named = {
            "clusters": [
                {"name": "it", "cluster": {"server": self.url, "certificate-authority": str(self.certificate)}}
            ],
            "users": [{"name": "it", "user": {"token": self.token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "it", **named}))
        path.chmod(0o600)
        return path

    @contextlib.contextmanager
    def scheduler(self, extenders: Sequence[Mapping[str, Any]] = ()) -> Iterator[None]:
        """While the stock scheduler runs."""
        port = free_port()
        flags = {
            "config": str(self._configuration("stock", extenders)),
            "secure-port": str(port),
            "bind-address": "127.0.0.1",
            "cert-dir": str(self._folder / "scheduler"),
        }
        with _running("kube-scheduler", flags, self._folder):
            yield

    @contextlib.contextmanager
    def controllers(self, *names: str) -> Iterator[None]:
        """While some of the stock controllers run."""
        port = free_port()
        flags = {
            "kubeconfig": str(self.kubeconfig),
            "controllers": ",".join(names),
            "kube-api-qps": str(RATE),
            "kube-api-burst": str(RATE),
            "secure-port": str(port),
            "bind-address": "127.0.0.1",
            "cert-dir": str(self._folder / "controllers"),
        }
        with _running("kube-controller-manager", flags, self._folder):
            yield

    @contextlib.contextmanager
    def rota(self, *words: str) -> Iterator[None]:
        """Run one of Rota's components on it."""
        command = [sys.executable, "-m", "rota", *words, "--kubeconfig", str(self.kubeconfig)]
        with _process(command, self._folder / f"{words[0]}.log"):
            yield

    @contextlib.contextmanager
    def our_scheduler(self) -> Iterator[None]:
        """Run Rota's scheduler instead of the stock one, with the same limits."""
        with self.rota("scheduler", "--scheduler-config", str(self._configuration("ours", ()))):
            yield

    def _configuration(self, whose: str, extenders: Sequence[Mapping[str, Any]]) -> Path:
        path = self._folder / f"{whose}.yaml"
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": RATE, "burst": RATE},
            # a new lease for each scheduler, so that it does not wait for the lease of a stopped one
            "leaderElection": {"leaderElect": True, "resourceName": f"{whose}-{secrets.token_hex(3)}"},
            "extenders": list(extenders),
        }
        path.write_text(yaml.safe_dump(settings))
        return path


@contextlib.contextmanager
def plane(folder: Path) -> Iterator[Plane]:
    """An API server with nothing on it, and its store, in a new folder."""
    for name in ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"):
        program(name)
    folder.mkdir(parents=True)
    etcd, peer, port = free_port(), free_port(), free_port()
    made = Plane(folder, port, secrets.token_hex(16))
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{made.token},administrator,administrator,system:masters\n")
    tokens.chmod(0o600)
    store = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": f"http://127.0.0.1:{etcd}",
        "advertise-client-urls": f"http://127.0.0.1:{etcd}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
        "quota-backend-bytes": str(8 * 2**30),
    }
    key = str(made.certificate.with_suffix(".key"))
    server = {
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "secure-port": str(port),
        "cert-dir": str(made.certificate.parent),
        "token-auth-file": str(tokens),
        "authorization-mode": "AlwaysAllow",
        "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition,Priority",
        "service-cluster-ip-range": "10.96.0.0/16",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": key,
        "service-account-key-file": key,
    }
    with _ending(), _running("etcd", store, folder), _running("kube-apiserver", server, folder) as process:
        _wait_ready(made, process)
        yield made


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Make a terminated benchmark end its child processes."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def free_port() -> int:
    """A free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _running(name: str, flags: Mapping[str, str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [str(program(name)), *(f"--{flag}={value}" for flag, value in flags.items())]
    with _process(command, folder / f"{name}.log") as process:
        yield process


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended: {log.read_text(errors='replace')[-2000:]}")
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:  # servers wait for their watchers
            process.kill()
            process.wait()


def _wait_ready(made: Plane, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.perf_counter() + _START_S
    while not _ready(made):
        if process.poll() is not None or time.perf_counter() > deadline:
            raise RuntimeError("kube-apiserver does not start")
        time.sleep(_LOOK_AGAIN_S)


def _ready(made: Plane) -> bool:
    if not made.certificate.exists():
        return False
    tls = ssl.create_default_context(cafile=str(made.certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", made.port, timeout=5, context=tls)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/readyz", headers={"authorization": f"Bearer {made.token}"})
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
