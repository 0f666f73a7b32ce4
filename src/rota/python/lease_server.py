"""Accepts the connection of a lease's client, and of no other. It needs only the standard library.

Any program may connect; the first one that proves with TLS that it has the client's key of this lease is taken, and the
listener is closed. The others have little time, and there are few of them at a time.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import socket
import ssl
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long to wait for the client, and for one handshake; and handshakes at a time.
_CLIENT_S = 120.0
_HANDSHAKE_S = 10.0
_MOST_HANDSHAKES = 16
#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME: keys belong to this lease alone, and clocks differ.
_NO_CHECK_TIME = 0x200000


def context(given: dict[str, Any]) -> ssl.SSLContext:
    """Takes the client of this lease only."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags = ssl.VerifyFlags(made.verify_flags | _NO_CHECK_TIME)
    made.load_verify_locations(cadata=given["client"])
    made.num_tickets = 0
    _identify(made, (given["certificate"] + "\n" + given["key"]).encode())
    return made


def _identify(made: ssl.SSLContext, identity: bytes) -> None:
    """Load certificate and key. The ssl module reads files only: this one is in memory, else private and removed."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("rota-lease")
        try:
            os.write(number, identity)
            made.load_cert_chain(f"/proc/self/fd/{number}")
            return
        except FileNotFoundError:  # /proc is not mounted
            pass
        finally:
            os.close(number)
    import tempfile  # noqa: PLC0415 - it takes a fifth of the time in which a worker starts

    with tempfile.NamedTemporaryFile(prefix="rota-") as file:
        file.write(identity)
        file.flush()
        made.load_cert_chain(file.name)


def listener(host: str, ports: list[int]) -> socket.socket:
    """A socket on the first free port; the client tries them in the same order."""
    for port in ports:
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"all of the ports {ports} are in use")


class Reception:
    """Waits for the client."""

    def __init__(self, listening: socket.socket, tls: ssl.SSLContext, wakeup: int) -> None:
        self._listening = listening
        self._tls = tls
        self._wakeup = wakeup
        self._select = selectors.DefaultSelector()
        #: Handshakes in progress, and when they have to be done.
        self._pending: dict[ssl.SSLSocket, float] = {}

    def client(self) -> ssl.SSLSocket | None:
        """The connection of the client; None if it does not come, or this worker has to stop."""
        until = _now() + _CLIENT_S
        self._listening.setblocking(False)
        self._select.register(self._listening, selectors.EVENT_READ)
        self._select.register(self._wakeup, selectors.EVENT_READ)
        try:
            while _now() < until:
                for key, _ in self._select.select(1.0):
                    if key.fd == self._wakeup:
                        if signal.SIGTERM in os.read(self._wakeup, 4096):
                            return None
                        continue
                    connection = key.fileobj if isinstance(key.fileobj, ssl.SSLSocket) else self._accepted()
                    if connection is not None and self._shake(connection):
                        _keep_alive(connection)
                        del self._pending[connection]
                        return connection
                for late in [one for one, end in self._pending.items() if end < _now()]:
                    self._drop(late)
            return None
        finally:
            self._select.close()
            for one in self._pending:
                one.close()
            self._listening.close()

    def _accepted(self) -> ssl.SSLSocket | None:
        try:
            plain, _ = self._listening.accept()
            if len(self._pending) >= _MOST_HANDSHAKES:
                plain.close()
                return None
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except OSError:
            return None
        self._pending[connection] = _now() + _HANDSHAKE_S
        self._select.register(connection, selectors.EVENT_READ)
        return connection

    def _shake(self, connection: ssl.SSLSocket) -> bool:
        """Go on with a handshake; whether the other side has shown the client's key."""
        try:
            connection.do_handshake()
            return True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self._select.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except OSError:
            self._drop(connection)
        return False

    def _drop(self, connection: ssl.SSLSocket) -> None:
        self._pending.pop(connection, None)
        self._select.unregister(connection)
        connection.close()


def _now() -> float:
    return time.monotonic()  # noqa: TID251 - this source travels by itself


def _keep_alive(connection: socket.socket) -> None:
    """Let a connection break if the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
