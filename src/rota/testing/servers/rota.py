"""Rota itself in a process of its own, as `rota up` starts it: to be stopped, killed and started again on its data.

with RotaServer() as rota:
    ...  # rota.url is https://127.0.0.1:PORT, rota.kubeconfig("system:kube-scheduler") that of a caller
"""

import base64
import contextlib
import http.client
import ssl
import sys
from pathlib import Path
from typing import Final

import yaml

from rota.testing.servers import kubernetes
from rota.testing.servers.processes import Server, free_port


class RotaServer(Server):
    """One `rota up` without workers, on a store of its own or at `store_url`, that serves over TLS on loopback."""

    def __init__(self, *options: str, store_url: str = "") -> None:
        """Further options of `rota up`."""
        self._options: Final = (*options, *(("--store", store_url) if store_url else ()))
        super().__init__("rota")
        self._tokens: Final = kubernetes.write_tokens(self.folder / "tokens.csv")

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
        path = self.folder / "ca.crt"
        written = yaml.safe_load((self.folder / "data" / "kubeconfig").read_text(encoding="utf-8"))
        path.write_bytes(base64.b64decode(written["clusters"][0]["cluster"]["certificate-authority-data"]))
        return path

    def token(self, caller: str = kubernetes.ADMINISTRATOR) -> str:
        """The bearer token of one of `kubernetes.CALLERS`."""
        return self._tokens[caller]

    def kubeconfig(self, caller: str = kubernetes.ADMINISTRATOR) -> Path:
        """A kubeconfig of one of `kubernetes.CALLERS`."""
        path = self.folder / f"{caller.replace(':', '-')}.kubeconfig"
        return kubernetes.write_kubeconfig(
            path, server=self.url, token=self.token(caller), certificate=self.certificate
        )

    def tls(self) -> ssl.SSLContext:
        """For clients that want no kubeconfig."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def command(self) -> list[str]:
        """See `Server.command`."""
        rota = Path(sys.executable).with_name("rota")
        where = ("--data", str(self.folder / "data"), "--port", str(self.port), "--workers", "0")
        tokens = ("--token-auth-file", str(self.folder / "tokens.csv"))
        return [str(rota), "up", *where, *tokens, *self._options]

    def answers(self) -> bool:
        """Whether the server says that it is ready."""
        if not (self.folder / "data" / "kubeconfig").exists():
            return False
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=2, context=self.tls())
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        return False
