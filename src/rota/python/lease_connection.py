"""Connects to a leased worker, and to no other program; `lease_tunnel` does where there is no direct way.

The worker listens on the first free port of a list that the client chose. Other programs may listen on one of them;
they do not have the lease's key, so the handshake with them fails and the next port is tried.
"""

import random
import socket
import ssl
import threading
from typing import Final

from rota.python.lease_keys import LeaseKeys

#: Below the ports that systems give to outgoing connections.
_PORTS: Final = range(20_000, 30_000)
_CANDIDATES: Final = 8
_HANDSHAKE_S: Final = 10.0
_CONNECT_S: Final = 2.0
#: The pause between attempts while the worker starts.
_PAUSE_S: Final = 0.004
#: Attempts before all ports are tried, in case the first one is taken by a program that does not listen.
_FIRST_ATTEMPTS: Final = 250


class NoWay(Exception):
    """The worker is not reachable directly; if it was `refused`, its address answers, and it may listen there later."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused: Final = refused


def candidate_ports(rng: random.Random) -> list[int]:
    """Ports for a new lease."""
    return rng.sample(_PORTS, _CANDIDATES)


def connect(
    address: str, ports: list[int], keys: LeaseKeys, *, attempts: int, stop: threading.Event
) -> ssl.SSLSocket | None:
    """An authenticated connection; None if it was stopped, `NoWay` if the worker is not reached. It blocks."""
    context = keys.context()
    taken: set[int] = set()
    problem: OSError | None = None
    for number in range(attempts):
        free = [one for one in ports if one not in taken]
        for port in free[: 1 if number < _FIRST_ATTEMPTS else None]:
            try:
                plain = socket.create_connection((address, port), timeout=_CONNECT_S)
            except ConnectionRefusedError as refused:
                problem = refused
                continue
            except OSError as unreachable:
                raise NoWay(f"{address} is not reachable: {unreachable}") from unreachable
            try:
                return secured(plain, context)
            except OSError as foreign:
                problem = foreign
                taken.add(port)
        if stop.wait(_PAUSE_S):
            return None
    raise NoWay(f"no worker answers at {address}: {problem}", refused=True)


def secured(plain: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """The handshake; OSError if the other side does not have the lease's key. It blocks."""
    plain.settimeout(_HANDSHAKE_S)
    try:
        if plain.family in {socket.AF_INET, socket.AF_INET6}:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return context.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise
