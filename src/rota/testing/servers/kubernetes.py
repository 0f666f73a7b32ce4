"""A private stock control plane, and stock components that work on any API server.

    with StockApiServer() as stock, Scheduler(stock.kubeconfig("system:kube-scheduler")):
        ...  # stock.url, stock.token("alice"), stock.certificate

The API server brings an etcd of its own; both write durably. Callers are told apart by bearer tokens, which are made
before the start; TLS is the server's own self-signed certificate. The components take a kubeconfig and know nothing
of whose API server it names.
"""

import contextlib
import csv
import http.client
import secrets
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import yaml

from rota.testing.servers import binaries
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.processes import Server, ServerError, free_port

ADMINISTRATOR: Final = "administrator"
#: Who calls, with the groups that stock installations give them. Default cluster roles are bound to these names.
CALLERS: Final[Mapping[str, Sequence[str]]] = {
    ADMINISTRATOR: ("system:masters",),
    "system:kube-scheduler": (),
    "system:kube-controller-manager": (),
    "alice": (),
}
#: Requests per second of a component, as scheduler_perf and integration tests set it: the client is not to be measured.
_RATE: Final = 5000


def program(name: str) -> Path:
    """A stock program; `ServerError` if this machine has none."""
    found = binaries.kubernetes(name)
    if found is None:
        raise ServerError(f"{name} is not there; scripts/build-kubernetes builds it")
    return found


def write_tokens(path: Path) -> dict[str, str]:
    """A file of static tokens, one for each of `CALLERS`; the tokens."""
    tokens = {name: secrets.token_hex(16) for name in CALLERS}
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((tokens[name], name, name, ",".join(groups)) for name, groups in CALLERS.items())
    path.chmod(0o600)
    return tokens


def write_kubeconfig(path: Path, *, server: str, token: str = "", certificate: Path | None = None) -> Path:
    """A kubeconfig for one server and one caller; without a certificate, for a server without TLS."""
    authority = {} if certificate is None else {"certificate-authority": str(certificate)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server, **authority}}],
        "users": [{"name": "caller", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "caller"}}],
        "current-context": "it",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    path.chmod(0o600)
    return path


class StockApiServer(Server):
    """One kube-apiserver on an etcd of its own."""

    def __init__(self, *, authorization: str = "RBAC", **flags: str) -> None:
        """Further flags of kube-apiserver, with `_` for `-`."""
        self._flags: Final = {
            "authorization-mode": authorization,
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
        self.etcd: Final = EtcdServer(program=program("etcd"))
        super().__init__("kube-apiserver")
        self._tokens: Final = write_tokens(self.folder / "tokens.csv")

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port = free_port()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        """What the server's certificate is checked against."""
        return self.folder / "certificates" / "apiserver.crt"

    def token(self, caller: str = ADMINISTRATOR) -> str:
        """The bearer token of one of `CALLERS`."""
        return self._tokens[caller]

    def kubeconfig(self, caller: str = ADMINISTRATOR) -> Path:
        """A kubeconfig of one of `CALLERS`."""
        path = self.folder / f"{caller.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, server=self.url, token=self.token(caller), certificate=self.certificate)

    def tls(self) -> ssl.SSLContext:
        """For clients that want no kubeconfig."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def command(self) -> list[str]:
        """See `Server.command`."""
        certificates = self.certificate.parent
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self.etcd.port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "secure-port": str(self.port),
            "cert-dir": str(certificates),
            "token-auth-file": str(self.folder / "tokens.csv"),
            "service-cluster-ip-range": "10.96.0.0/16",
            "allow-privileged": "true",
            "service-account-issuer": "https://kubernetes.default.svc",
            # One key serves both purposes here: the server makes it before it is first asked for.
            "service-account-signing-key-file": str(certificates / "apiserver.key"),
            "service-account-key-file": str(certificates / "apiserver.key"),
            **self._flags,
        }
        return [str(program("kube-apiserver")), *(f"--{name}={value}" for name, value in flags.items())]

    def answers(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            tls = self.tls()
        except OSError:  # not there yet, or not whole
            return False
        return _ready(self.port, "/readyz", tls=tls, token=self.token())

    def __enter__(self) -> Self:
        self.etcd.__enter__()
        return super().__enter__()

    def close(self) -> None:
        """Stop both servers and remove their folders."""
        try:
            super().close()
        finally:
            self.etcd.close()


class _Component(Server):
    """A stock program that works on an API server and says on a port of its own that it is well."""

    def __init__(self, name: str, kubeconfig: Path, flags: Mapping[str, str]) -> None:
        self._program: Final = program(name)
        self._kubeconfig: Final = kubeconfig
        self._flags: Final = flags
        super().__init__(name)

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where health and metrics are served."""
        return f"https://127.0.0.1:{self.port}"

    def flags(self) -> dict[str, str]:
        """How the component is told where its server is, and how often it may ask."""
        rate = {"kube-api-qps": str(_RATE), "kube-api-burst": str(_RATE)}
        return {"kubeconfig": str(self._kubeconfig), **rate, **self._flags}

    def command(self) -> list[str]:
        """See `Server.command`."""
        flags = {
            "bind-address": "127.0.0.1",
            "secure-port": str(self.port),
            "cert-dir": str(self.folder / "certificates"),
            **self.flags(),
        }
        return [str(self._program), *(f"--{name}={value}" for name, value in flags.items())]

    def answers(self) -> bool:
        """Whether the component says that it is well."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return _ready(self.port, "/healthz", tls=context)


class Scheduler(_Component):
    """A stock kube-scheduler with its default plugins; it serves the pods that ask for a scheduler of its name."""

    def __init__(self, kubeconfig: Path, *, name: str = "default-scheduler", lease_s: int = 15) -> None:
        """`lease_s`: how long the leadership of one that was killed lasts. Those of one name elect a leader."""
        super().__init__("kube-scheduler", kubeconfig, {})
        self._settings: Final = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _RATE, "burst": _RATE},
            "leaderElection": {
                "leaderElect": True,
                "resourceName": "kube-scheduler" if name == "default-scheduler" else name,
                "leaseDuration": f"{lease_s}s",
                "renewDeadline": f"{lease_s * 2 // 3}s",
                "retryPeriod": f"{lease_s * 1000 // 7}ms",
            },
            "profiles": [{"schedulerName": name}],
        }

    def flags(self) -> dict[str, str]:
        """See `_Component.flags`."""
        path = self.folder / "settings.yaml"
        path.write_text(yaml.safe_dump(self._settings), encoding="utf-8")
        return {"config": str(path)}


class ControllerManager(_Component):
    """A stock kube-controller-manager."""

    def __init__(self, kubeconfig: Path, **flags: str) -> None:
        """Further flags of kube-controller-manager, with `_` for `-`."""
        named = {name.replace("_", "-"): text for name, text in flags.items()}
        super().__init__("kube-controller-manager", kubeconfig, named)


def _ready(port: int, path: str, *, tls: ssl.SSLContext, token: str = "") -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=tls)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
