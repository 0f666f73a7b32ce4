"""The listening sockets of a pod's own processes.

Pods may share the machine's network, and with it everything that listens there. A client that may access a pod may
access what the pod listens on, and nothing else.
"""

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rota.worker import usage
from rota.worker.runtimes.runtime_interface import Place

_LISTENING: Final = "0A"
_SOCKET: Final = "socket:["
_PROC: Final = Path("/proc")


class OwnNetwork(Exception):
    """The pod has its own network namespace, which cannot be reached from here."""


def address(places: Iterable[Place], port: int, *, proc: Path = _PROC) -> str | None:
    """The address to connect to for a port of some containers; None if none of them listens there."""
    pids = [pid for place in places for pid in usage.pids(place, proc)]
    inodes = {inode for pid in pids for inode in _sockets(proc / str(pid))}
    for pid in pids[:1]:
        _check_network(proc, pid)
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for found, number, inode in parse_listeners((proc / "self/net" / table).read_text()):
                if number == port and inode in inodes:
                    return found
    return None


def parse_listeners(table: str) -> Iterator[tuple[str, int, str]]:
    """Of /proc/net/tcp or tcp6: address, port and inode of each listening socket."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        host, _, port = fields[1].partition(":")
        # In words of four bytes, each in the machine's byte order.
        words = [bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8)]
        found = ipaddress.ip_address(b"".join(words))
        if found.is_unspecified:
            found = ipaddress.ip_address("127.0.0.1" if found.version == 4 else "::1")
        yield str(found), int(port, 16), fields[9]


def _sockets(process: Path) -> Iterator[str]:
    """The inodes of a process's sockets; none if it is gone."""
    with contextlib.suppress(OSError):
        for opened in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(opened.readlink())
                if target.startswith(_SOCKET):
                    yield target[len(_SOCKET) : -1]


def _check_network(proc: Path, pid: int) -> None:
    with contextlib.suppress(OSError):
        if (proc / str(pid) / "ns/net").readlink() != (proc / "self/ns/net").readlink():
            raise OwnNetwork
