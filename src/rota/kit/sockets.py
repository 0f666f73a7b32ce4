"""TCP keepalive for connections that may be silent for long, so that the kernel detects a lost peer."""

import asyncio
import contextlib
import socket
from typing import Final

#: Seconds of silence before the first probe, between probes, and how many probes.
_ASKING: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


def notice_loss(transport: asyncio.BaseTransport) -> None:
    """Enable keepalive probes; a socket that is not TCP stays as it is."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is None:
        return
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ASKING:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
