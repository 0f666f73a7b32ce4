"""Measures the latency of a server's `/readyz`, on a separate connection, while the server has other work.

A separate process measures it: a thread of the test would wait for the test's own work as well. On a busy machine,
the same process alternately calls a second, idle server: its latency is that of the machine at that time.
"""

import contextlib
import http.client
import select
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from rota.kit import system
from rota.testing.servers.rota import RotaServer

#: The longest delay that a request may cause on another connection, on an idle machine.
BOUND_S: Final = 0.2
_PAUSE_S: Final = 0.01


class Delays(msgspec.Struct, frozen=True):
    """Latencies of a server."""

    count: int
    worst_s: float
    #: The 99th percentile.
    p99_s: float

    def __str__(self) -> str:
        return f"{self.count} answers, 99 of 100 within {self.p99_s * 1000:.0f} ms, worst {self.worst_s * 1000:.0f} ms"


def summary(took_s: Sequence[float]) -> Delays:
    """The summary of some latencies; of fewer than a hundred the slowest counts twice."""
    ordered = sorted(took_s)
    return Delays(len(ordered), ordered[-1], ordered[-(len(ordered) // 100) - 1])


class Readiness:
    """Measures one server."""

    def __init__(self, server: RotaServer) -> None:
        self._server: Final = server
        #: The latency without other work, measured first, because a busy machine delays everything.
        self.bound_s: Final = max(BOUND_S, 3 * self.worst_s(lambda: threading.Event().wait(2.0)))

    def worst_s(self, work: Callable[[], object]) -> float:
        """The longest that an answer took while `work` ran."""
        return _measured(work, self._server)[0].worst_s


def compared(work: Callable[[], object], server: RotaServer, *, idle: RotaServer) -> tuple[Delays, Delays]:
    """The answers of a server while `work` ran, and those of an idle one at the same time."""
    attacked, quiet = _measured(work, server, idle)
    return attacked, quiet


def _measured(work: Callable[[], object], *servers: RotaServer) -> list[Delays]:
    arguments = [text for one in servers for text in (str(one.port), str(one.certificate))]
    command = [sys.executable, "-m", __name__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        try:
            assert watcher.stdout.readline() == "begun\n"
            work()
        finally:
            watcher.stdin.close()
        return msgspec.json.decode(watcher.stdout.readline(), type=list[Delays])


def _watch(servers: Sequence[tuple[int, str]]) -> list[Delays]:
    """How long servers take to answer, asked by turns until the standard input ends."""
    clock = system.SystemClock()
    took_s: list[list[float]] = [[] for _ in servers]
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(contextlib.closing(_connected(*one))) for one in servers]
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        while not took_s[0] or not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            for connection, times in zip(connections, took_s, strict=True):
                start = clock.monotonic()
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                answer.read()
                times.append(clock.monotonic() - start)
                assert answer.status == http.HTTPStatus.OK, "the server is not ready"
    return [summary(one) for one in took_s]


def _connected(port: int, certificate: str) -> http.client.HTTPSConnection:
    tls = ssl.create_default_context(cafile=certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=tls)
    connection.connect()
    return connection


if __name__ == "__main__":
    given = sys.argv[1:]
    found = _watch([(int(port), file) for port, file in zip(given[::2], given[1::2], strict=True)])
    sys.stdout.write(f"{msgspec.json.encode(found).decode()}\n")
