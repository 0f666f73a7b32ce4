"""Measures the latency of a server's `/readyz`, on a separate connection, while the server has other work.

A separate process measures it: a thread of the test would wait for the test's own work as well. A busy machine delays
answers, too. So there are two measures that leave that out: the part of a latency in which the server itself used a
processor (`own_worst_s`), and the latency of a second, idle server that the same process calls alternately.
"""

import contextlib
import http.client
import select
import ssl
import subprocess
import sys
import time
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
    #: The longest that the server itself computed during a latency: what waited for other programs is left out.
    own_worst_s: float

    def __str__(self) -> str:
        return f"{self.count} answers, 99 of 100 within {self.p99_s * 1000:.0f} ms, worst {self.worst_s * 1000:.0f} ms"


def summary(took_s: Sequence[tuple[float, float]]) -> Delays:
    """The summary of some latencies, each with the server's processor time meanwhile.

    Of fewer than a hundred the slowest counts twice.
    """
    ordered = sorted(latency for latency, _ in took_s)
    own_worst_s = max(map(min, took_s))
    return Delays(len(ordered), ordered[-1], ordered[-(len(ordered) // 100) - 1], own_worst_s)


def own_worst_s(work: Callable[[], object], server: RotaServer) -> float:
    """The longest that a server, by its own work, delayed an answer while `work` ran."""
    return _measured(work, server)[0].own_worst_s


def compared(work: Callable[[], object], server: RotaServer, *, idle: RotaServer) -> tuple[Delays, Delays]:
    """The answers of a server while `work` ran, and those of an idle one at the same time."""
    attacked, quiet = _measured(work, server, idle)
    return attacked, quiet


def _measured(work: Callable[[], object], *servers: RotaServer) -> list[Delays]:
    arguments = [text for one in servers for text in (str(one.port), str(one.certificate), str(one.pid))]
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


def _watch(servers: Sequence[tuple[int, str, int]]) -> list[Delays]:
    """How long servers take to answer, asked by turns until the standard input ends."""
    clock = system.SystemClock()
    took_s: list[list[tuple[float, float]]] = [[] for _ in servers]
    with contextlib.ExitStack() as opened:
        connections = [
            (opened.enter_context(contextlib.closing(_connected(port, certificate))), processor_clock(pid))
            for port, certificate, pid in servers
        ]
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        while not took_s[0] or not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            for (connection, processor), times in zip(connections, took_s, strict=True):
                start, used = clock.monotonic(), time.clock_gettime(processor)
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                answer.read()
                times.append((clock.monotonic() - start, time.clock_gettime(processor) - used))
                assert answer.status == http.HTTPStatus.OK, "the server is not ready"
    return [summary(one) for one in took_s]


def processor_clock(pid: int) -> int:
    """Linux' clock of the processor time of a process with all its threads, as `clock_getcpuclockid` makes it."""
    return (~pid << 3) | 2


def _connected(port: int, certificate: str) -> http.client.HTTPSConnection:
    tls = ssl.create_default_context(cafile=certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=tls)
    connection.connect()
    return connection


if __name__ == "__main__":
    given = iter(sys.argv[1:])
    found = _watch([(int(port), file, int(pid)) for port, file, pid in zip(given, given, given, strict=True)])
    sys.stdout.write(f"{msgspec.json.encode(found).decode()}\n")
