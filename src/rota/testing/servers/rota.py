"""Rota itself in a process of its own, as `rota up` starts it: to be stopped, killed and started again on its data.

with RotaServer() as rota:
    ...  # rota.url is http://127.0.0.1:PORT
"""

import contextlib
import http.client
import sys
from pathlib import Path
from typing import Final

from rota.testing.servers import kubernetes
from rota.testing.servers.processes import Server, free_port


class RotaServer(Server):
    """One `rota up` with its own store, or on the store at `store_url`, that serves plain HTTP on loopback."""

    def __init__(self, *options: str, store_url: str = "") -> None:
        """Further options of `rota up`."""
        self._options: Final = (*options, *(("--store", store_url) if store_url else ()))
        super().__init__("rota")

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port = free_port()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self) -> Path:
        """A kubeconfig for components that want one."""
        return kubernetes.write_kubeconfig(self.folder / "kubeconfig", server=self.url)

    def command(self) -> list[str]:
        """See `Server.command`."""
        rota = Path(sys.executable).with_name("rota")
        return [str(rota), "up", "--data", str(self.folder / "data"), "--http", str(self.port), *self._options]

    def answers(self) -> bool:
        """Whether the server says that it is ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        return False
