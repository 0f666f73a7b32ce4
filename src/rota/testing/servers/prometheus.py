"""A private Prometheus and a private Alertmanager, on loopback.

with AlertmanagerServer(inhibitions) as receiver, PrometheusServer(folder, receiver) as prometheus:
    prometheus.query("up")
"""

import contextlib
import http.client
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from rota.testing.servers import binaries
from rota.testing.servers.processes import Server, ServerError, free_port

_ANSWER_S: Final = 20.0


class _HttpServer(Server):
    """A server with a JSON API."""

    port: int

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port = free_port()

    @property
    def url(self) -> str:
        """See `Server.url`."""
        return f"http://{self.address}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """See `Server.answers`."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._get("/-/ready")[0] == http.HTTPStatus.OK
        return False

    def read(self, path: str) -> Any:
        """The JSON document at a path."""
        code, body = self._get(path)
        if code != http.HTTPStatus.OK:
            raise ServerError(f"{path}: {code} {body.decode(errors='replace')}")
        return json.loads(body)

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()


class PrometheusServer(_HttpServer):
    """Prometheus with the configuration `prometheus.yml` of a folder."""

    def __init__(self, configuration: Path) -> None:
        self._program: Final = _required("prometheus")
        self._configuration: Final = configuration
        super().__init__("prometheus")

    def command(self) -> list[str]:
        """See `Server.command`."""
        return [
            str(self._program),
            f"--config.file={self._configuration / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--storage.tsdb.retention.time=2h",
        ]

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found = self.read(f"/api/v1/query?{urlencode({'query': expr})}")
        return list(found["data"]["result"])

    def targets(self) -> list[dict[str, Any]]:
        """The targets that it reads, with their health."""
        return list(self.read("/api/v1/targets?state=active")["data"]["activeTargets"])


class AlertmanagerServer(_HttpServer):
    """Alertmanager with these inhibitions; it sends nothing anywhere."""

    def __init__(self, inhibitions: Sequence[dict[str, Any]]) -> None:
        self._program: Final = _required("prometheus-alertmanager")
        super().__init__("alertmanager")
        configuration = {
            "route": {"receiver": "nowhere", "group_wait": "1s", "group_by": ["..."]},
            "receivers": [{"name": "nowhere"}],
            "inhibit_rules": list(inhibitions),
        }
        # YAML includes JSON.
        (self.folder / "alertmanager.yml").write_text(json.dumps(configuration))

    def command(self) -> list[str]:
        """See `Server.command`."""
        return [
            str(self._program),
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]

    def alerts(self) -> frozenset[str]:
        """The names of the alerts that are sent to receivers now: those that fire and are not held back."""
        found = self.read("/api/v2/alerts?active=true&silenced=false&inhibited=false")
        return frozenset(one["labels"]["alertname"] for one in found)


def _required(program: str) -> Path:
    found = binaries.on_path(program)
    if found is None:
        raise ServerError(f"{program} is not installed")
    return found
