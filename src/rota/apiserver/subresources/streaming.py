"""Streaming to a pod: `pods/exec`, `pods/attach` and `pods/portforward`, over WebSocket.

The request is checked here, a WebSocket connection to the worker is opened on behalf of the client, and then bytes are
forwarded in both directions. Frames are not parsed. SPDY, which older clients use, is refused with a message that says
what to do.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import parse_qsl, quote, urlencode

from rota.api import errors, gotext
from rota.apiserver.interfaces import Object, Registry, SubresourceRequest, Tunnel
from rota.apiserver.subresources import worker_addresses
from rota.apiserver.subresources.binder import NODES, PODS
from rota.apiserver.subresources.logs import container_of
from rota.apiserver.subresources.worker_addresses import Address

#: The subprotocols of clients and workers: one of these, and for ports the other.
PROTOCOLS: Final = (b"v4.channel.k8s.io", b"v5.channel.k8s.io")
FORWARDING: Final = (b"SPDY/3.1+portforward.k8s.io",)
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: How long a worker may take to answer.
_PATIENCE_S: Final = 10.0
_MOST_OF_A_REFUSAL: Final = 4096
_PIECE: Final = 64 * 1024
#: Headers of the worker's response for the client: the handshake's proof and the subprotocol.
_HANDED_ON: Final = frozenset({b"sec-websocket-accept", b"sec-websocket-protocol"})
_HANDSHAKE: Final = (
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-extensions",
)
_PROTOCOLS: Final = b"sec-websocket-protocol"
#: Browsers can send credentials as subprotocols only: those of Kubernetes, and the page keys of the dashboard.
_CREDENTIALS: Final = ("base64url.bearer.authorization.k8s.io.", "page-key.rota.dev.")
#: The names of the streams, for clients and for workers.
_STREAMS: Final = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"))

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9])(?: |$)")

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class WorkerStreams(Protocol):
    """Reaches the endpoints of workers."""

    async def connect(self, node: str, address: Address | None, /) -> Stream:
        """A connection to the endpoint of a node's worker; ApiError if it is not reachable."""
        ...


class PodStream:
    """GET of `exec` or `attach` below `pods/<name>`, with an upgrade to WebSocket."""

    def __init__(self, what: str, worker_streams: WorkerStreams) -> None:
        self._what: Final = what
        self._worker_streams: Final = worker_streams

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Tunnel:
        """The connection, handed over to the worker."""
        asked = parse_qsl(request.raw_query.decode("latin-1"), keep_blank_values=True)
        at = request.at
        pod = (await registry.read(registry.resource(PODS), at.namespace, at.name)).object
        container = container_of(pod, request.query.get("container", ""))
        query = [(theirs, "1") for ours, theirs in _STREAMS if request.query.get(ours) in _TRUE]
        if not query:
            raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if request.query.get("tty") in _TRUE:
            query.append(("tty", "1"))
        if self._what == "exec":
            query += _command(asked)
        names = "/".join(quote(one, safe="") for one in (at.namespace, at.name, container))
        path = f"/{self._what}/{names}?{urlencode(query)}"
        return await _handed_over(request, registry, self._worker_streams, pod, path, PROTOCOLS)


class PodPortForward:
    """GET of `pods/<name>/portforward`, with an upgrade to WebSocket that has SPDY inside."""

    def __init__(self, worker_streams: WorkerStreams) -> None:
        self._worker_streams: Final = worker_streams

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Tunnel:
        """The connection, handed over to the worker."""
        at = request.at
        pod = (await registry.read(registry.resource(PODS), at.namespace, at.name)).object
        path = f"/portForward/{quote(at.namespace, safe='')}/{quote(at.name, safe='')}"
        return await _handed_over(request, registry, self._worker_streams, pod, path, FORWARDING)


async def _handed_over(
    request: SubresourceRequest,
    registry: Registry,
    worker_streams: WorkerStreams,
    pod: Object,
    path: str,
    protocols: Sequence[bytes],
) -> Tunnel:
    """The client's connection, once the pod's worker has accepted one of the subprotocols."""
    node = _node(pod, request.at.subresource)
    key, spoken = _handshake(request, protocols)
    worker = await registry.find(registry.resource(NODES), "", node)
    address = worker_addresses.of_node(worker.object) if worker is not None else None
    reader, writer = await worker_streams.connect(node, address)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            asked = (
                b"GET %b HTTP/1.1\r\nHost: worker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\nSec-WebSocket-Protocol: %b\r\n\r\n"
            ) % (path.encode("ascii"), key, spoken)
            headers = await agree(reader, writer, asked, "the worker")
    except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError, ValueError) as problem:
        writer.close()
        raise errors.InternalError(
            f"the worker of node {gotext.quote(node)} does not answer: {str(problem) or type(problem).__name__}"
        ) from problem
    except BaseException:
        writer.close()
        raise
    return Tunnel(peer=SocketStream(reader, writer), headers=headers)


class SocketStream:
    """A `Duplex` over a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader: Final = reader
        self._writer: Final = writer

    async def read(self) -> bytes:
        """See `Duplex.read`."""
        return await self._reader.read(_PIECE)

    async def write(self, data: bytes, /) -> None:
        """See `Duplex.write`."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """See `Duplex.close`."""
        self._writer.close()


def _command(asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    command = [(name, value) for name, value in asked if name == "command"]
    if not command:
        raise errors.bad_request("you must specify at least one command for the container")
    return command


def _node(pod: Object, what: str) -> str:
    name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase", "")
    if phase in _ENDED:
        raise errors.bad_request(f"cannot {what} a container in a completed pod; current phase is {phase}")
    node: str = (pod.get("spec") or {}).get("nodeName") or ""
    if not node:
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    return node


def _handshake(request: SubresourceRequest, protocols: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The key and the subprotocols of the client's WebSocket handshake; BadRequest if it is not one."""
    headers: Mapping[bytes, bytes] = request.headers
    upgrade = headers.get(b"upgrade", b"").lower()
    if upgrade.startswith(b"spdy"):
        raise errors.bad_request(
            "SPDY is not spoken here, but WebSocket: use kubectl 1.30 or newer (1.29 with"
            " KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true), for forwarded ports 1.31"
        )
    if upgrade != b"websocket" or request.method != "GET":
        raise errors.bad_request("Upgrade request required")
    if headers.get(b"sec-websocket-version") != b"13":
        raise errors.bad_request("only version 13 of WebSocket is spoken here")
    key = headers.get(b"sec-websocket-key", b"")
    try:
        whole = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        whole = False
    if not whole:
        raise errors.bad_request("the Sec-WebSocket-Key is not one")
    offered = [one.strip() for one in headers.get(b"sec-websocket-protocol", b"").split(b",")]
    spoken = [one for one in offered if one in protocols]
    if not spoken:
        names = " or ".join(one.decode() for one in protocols)
        raise errors.bad_request(f"none of the client's protocols is spoken here: it takes {names}")
    return key, b", ".join(spoken)


def upgrade_request(path: str, host: str, headers: Iterable[tuple[str, str]], sent: Mapping[bytes, bytes]) -> bytes:
    """The request that opens a WebSocket at another server, with the handshake that the client `sent`.

    Subprotocols that are credentials of the client stay here.
    """
    handshake = [(one.decode(), sent[one].decode("latin-1")) for one in _HANDSHAKE if one in sent]
    offered = [one.strip() for one in sent.get(_PROTOCOLS, b"").decode("latin-1").split(",")]
    spoken = [one for one in offered if one and not one.startswith(_CREDENTIALS)]
    if spoken:
        handshake.append((_PROTOCOLS.decode(), ", ".join(spoken)))
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        *(f"{header}: {value}" for header, value in (*headers, *handshake)),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def agree(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes, whom: str
) -> tuple[tuple[bytes, bytes], ...]:
    """Open a WebSocket with a request; returns the headers of the response. ApiError with its message if refused."""
    writer.write(asked)
    await writer.drain()
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
    begun = _STATUS_LINE.match(first)
    if begun is None:
        raise ValueError("that is no answer in HTTP")
    code = int(begun[1])
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    if code == 101:
        accepted = tuple(one for one in headers if one[0] in _HANDED_ON)
        if any(not value.isascii() or not value.decode().isprintable() for _, value in accepted):
            raise ValueError("a header of the answer breaks its line")
        return accepted
    length = int(dict(headers).get(b"content-length", b"0"))
    said = (await reader.readexactly(min(length, _MOST_OF_A_REFUSAL))).decode("utf-8", "replace").strip()
    raise errors.InternalError(f"{whom} answered {code}: {said}")
