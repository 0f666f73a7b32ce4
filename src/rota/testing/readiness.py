"""How long a server keeps `/readyz` waiting on a connection of its own while something else is done to it.

A process of its own measures it: a thread of the test would wait for the test's own work as well.
"""

import contextlib
import http.client
import select
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final

from rota.kit import system
from rota.testing.servers.rota import RotaServer

#: What no request may delay the answer to another connection by, on a machine with nothing else to do.
BOUND_S: Final = 0.2
_PAUSE_S: Final = 0.01


class Readiness:
    """Measures one server."""

    def __init__(self, server: RotaServer) -> None:
        self._server: Final = server
        #: A busy machine delays everything: what it takes when nothing is done is measured first.
        self.bound_s: Final = max(BOUND_S, 3 * self.worst_s(lambda: threading.Event().wait(2.0)))

    def worst_s(self, work: Callable[[], object]) -> float:
        """The longest that an answer took while `work` ran."""
        command = [sys.executable, "-m", __name__, str(self._server.port), str(self._server.certificate)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdin is not None
            assert watcher.stdout is not None
            try:
                assert watcher.stdout.readline() == "begun\n"
                work()
            finally:
                watcher.stdin.close()
            return float(watcher.stdout.readline())


def _watch(port: int, certificate: str) -> float:
    """The longest answer until the standard input ends."""
    clock = system.SystemClock()
    tls = ssl.create_default_context(cafile=certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=tls)
    worst_s = 0.0
    connection.connect()
    with contextlib.closing(connection):
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            start = clock.monotonic()
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            worst_s = max(worst_s, clock.monotonic() - start)
            assert answer.status == http.HTTPStatus.OK, "the server is not ready"
    return worst_s


if __name__ == "__main__":
    sys.stdout.write(f"{_watch(int(sys.argv[1]), sys.argv[2])}\n")
