"""A private etcd: one member, plain HTTP on loopback.

with EtcdServer() as server:
    ...  # server.url is etcd://127.0.0.1:PORT
"""

import contextlib
import http.client
import json
import secrets
from pathlib import Path

from rota.testing.servers import binaries
from rota.testing.servers.processes import Server, ServerError, free_port


class EtcdServer(Server):
    """One private etcd."""

    def __init__(self, *, quota_backend_bytes: int = 0, program: Path | None = None, address: str = "") -> None:
        """`quota_backend_bytes`: the size at which etcd refuses further writes; 0 means its default.

        `address`: another one of this machine, by which others reach it.
        """
        program = program or binaries.etcd()
        if program is None:
            raise ServerError("etcd is not installed")
        self._program = program
        self._quota = quota_backend_bytes
        self._address = address
        self._name = f"rota-{secrets.token_hex(6)}"
        super().__init__("etcd")

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port, self._peer_port = free_port(), free_port()

    @property
    def url(self) -> str:
        """See `Server.url`."""
        return f"etcd://{self._address or '127.0.0.1'}:{self.port}"

    def command(self) -> list[str]:
        """See `Server.command`."""
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peer_port}"
        settings = {
            "name": self._name,
            "data-dir": str(self.folder / "data"),
            "listen-client-urls": ",".join(
                [client, *([f"http://{self._address}:{self.port}"] if self._address else ())]
            ),
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"{self._name}={peer}",
            "quota-backend-bytes": str(self._quota),
            # A lone member elects itself; with the defaults every restart would wait a second or more for that.
            "heartbeat-interval": "20",
            "election-timeout": "200",
            "logger": "zap",
        }
        return [str(self._program), *(f"--{name}={value}" for name, value in settings.items())]

    def answers(self) -> bool:
        """Whether this very member, and no stranger on its port, is elected and serves requests."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        with (
            contextlib.suppress(OSError, http.client.HTTPException, ValueError),
            contextlib.closing(connection),
        ):
            connection.request("POST", "/v3/cluster/member/list", "{}")
            members = json.loads(connection.getresponse().read()).get("members", [])
            # A member makes its name known once it has a leader.
            return [member.get("name") for member in members] == [self._name]
        return False
