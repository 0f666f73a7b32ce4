"""Connects to a leased worker through a master (`pods/portforward`) where there is no direct way to it.

TLS is between client and worker as with a direct connection, so a master carries what it cannot read. A direct way
remains preferred: if the address of the worker answers at all, it is tried again once the worker is known to listen.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rota.api.errors import ApiError, Forbidden
from rota.client import port_forward
from rota.client.endpoints import Endpoint
from rota.client.port_forward import Forwarding
from rota.client.transports.transport import TransportError
from rota.kit.clock import Clock
from rota.python import lease_connection
from rota.python.lease_connection import NoWay
from rota.python.lease_keys import LeaseKeys

#: A node refuses a port on which its pod does not listen within this time.
_REFUSAL_S: Final = 0.25
#: The pause between attempts, and how many there are while the worker starts.
_PAUSE_S: Final = 0.1
_ATTEMPTS: Final = 300
#: All ports are tried in each of so many attempts, in the others only the first one.
_ALL_PORTS: Final = 8
_DIRECT_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A leased worker."""

    endpoint: Endpoint
    namespace: str
    pod: str
    address: str
    ports: list[int]
    keys: LeaseKeys


async def carry(
    target: Target,
    direct: NoWay,
    *,
    connected: Callable[[ssl.SSLSocket], None],
    stop: threading.Event,
    clock: Clock,
) -> None:
    """Hand over a connection to the worker, and carry it until it ends; `NoWay` if there is none, nor a direct one."""
    problem = "the worker does not listen"
    for number in range(_ATTEMPTS):
        if stop.is_set():
            return
        try:
            async with port_forward.to_pod(target.endpoint, target.pod, namespace=target.namespace) as forwarding:
                ports = target.ports if number % _ALL_PORTS == _ALL_PORTS - 1 else target.ports[:1]
                for port in ports:
                    if await _connect(target, forwarding, port, direct, connected, stop):
                        return
                problem = forwarding.problem or problem
        except Forbidden as refused:
            raise NoWay(
                f"{direct}; and no right to reach it through the API server: {refused.message}; "
                "grant 'create pods/portforward', or run the program where pods are reachable"
            ) from None
        except (ApiError, TransportError, ConnectionError) as broken:
            problem = str(broken)
        await clock.sleep(_PAUSE_S)
    raise NoWay(f"{direct}; and through the API server: {problem}")


async def _connect(
    target: Target,
    forwarding: Forwarding,
    port: int,
    direct: NoWay,
    connected: Callable[[ssl.SSLSocket], None],
    stop: threading.Event,
) -> bool:
    """Whether there was a connection to this port; returns when it is over, or at once if it is direct."""
    plain = await forwarding.connect(port)
    if await asyncio.to_thread(_is_refused, plain):
        plain.close()
        return False
    if direct.refused:
        again = functools.partial(
            lease_connection.connect, target.address, [port], target.keys, attempts=_DIRECT_ATTEMPTS, stop=stop
        )
        with contextlib.suppress(NoWay):
            found = await asyncio.to_thread(again)
            plain.close()
            if found is not None:
                connected(found)
            return True
    try:
        secured = await asyncio.to_thread(lease_connection.secured, plain, target.keys.context())
    except OSError:
        return False
    connected(secured)
    await forwarding.idle()
    return True


def _is_refused(plain: socket.socket) -> bool:
    """Whether a forwarded connection ends at once. It blocks."""
    plain.settimeout(_REFUSAL_S)
    try:
        plain.recv(1, socket.MSG_PEEK)
    except TimeoutError:  # the worker says nothing before the client does
        return False
    except OSError:
        return True
    return True
