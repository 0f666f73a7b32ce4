"""Connections that may be silent for long: the kernel finds out whether the other side is still there."""

import asyncio
import contextlib
import socket
from typing import Final

#: After how many seconds of silence to ask, how often, and how many times.
_ASKING: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


def notice_loss(transport: asyncio.BaseTransport) -> None:
    """End a connection whose other side has vanished; one that is not over a network stays as it is."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is None:
        return
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ASKING:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
