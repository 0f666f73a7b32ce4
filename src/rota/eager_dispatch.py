"""The leader's calls that offer newly bound pods to their workers.

A worker of this process is called directly; others over TLS at the address in their Node, with the masters'
certificate: `POST /rota/v1/pods`. A call names the incarnation of the worker that the Node had when the pod was
bound, so that a worker that was started since does not accept the pod. At most one call per worker is active; pods
that are bound meanwhile go together in the next call. A failed call is not repeated: the worker gets the pods by its
watch, and for a while nothing is pushed to it.
"""

import asyncio
import ssl
from collections import deque
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.binding import dispatch_mode
from rota.scheduler.binding.dispatch_mode import Document

log = logs.get(__name__)

PATH: Final = "/rota/v1/pods"
DEFAULT_PORT: Final = 10_250
#: The timeout of a call; beyond it the watch is faster.
_TIMEOUT_S: Final = 2.0
#: How long nothing is pushed to a worker after a failed call.
_REST_S: Final = 5.0
#: Limit of queued pods per worker; further ones are pulled.
_WAITING: Final = 256
_TOGETHER: Final = 32
_OK: Final = 200
#: The prefix of the runtime version of Rota's workers.
_OURS: Final = "rota://"


class Local(Protocol):
    """The workers of this process."""

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        """Offer pods to the worker of a node; False if it does not run in this process."""
        ...


class _Address(msgspec.Struct, frozen=True):
    type: str = ""
    address: str = ""


class _KubeletEndpoint(msgspec.Struct, frozen=True):
    port: int = msgspec.field(default=0, name="Port")


class _Endpoints(msgspec.Struct, frozen=True, rename="camel"):
    kubelet_endpoint: _KubeletEndpoint = _KubeletEndpoint()


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    container_runtime_version: str = ""
    incarnation: str = msgspec.field(default="", name="systemUUID")


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    addresses: tuple[_Address, ...] = ()
    daemon_endpoints: _Endpoints = _Endpoints()
    node_info: _Info = _Info()


class _Node(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class WorkerEndpoint(msgspec.Struct, frozen=True):
    """The address and the incarnation of a worker."""

    host: str
    port: int
    incarnation: str

    @property
    def url(self) -> str:
        """The URL of a call."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{PATH}"


_decoder: Final = msgspec.json.Decoder(_Node)


class EagerDispatch:
    """A `Dispatcher` that calls workers; `default_mode` is that of pods without the annotation."""

    def __init__(self, *, default_mode: str, local: Local, tls: ssl.SSLContext | None, clock: Clock) -> None:
        """Without `tls` only workers of this process are called."""
        self._default_mode: Final = default_mode
        self._local: Final = local
        self._tls: Final = tls
        self._clock: Final = clock
        self._waiting: Final[dict[str, deque[tuple[WorkerEndpoint, dict[str, Any]]]]] = {}
        self._rests_until: Final[dict[str, float]] = {}
        self._calls: Final[set[asyncio.Task[None]]] = set()
        self._session: aiohttp.ClientSession | None = None

    def bound(self, pod: Document, node_name: str, node: Document | msgspec.Raw | None) -> None:
        """See `Dispatcher.bound`."""
        if not dispatch_mode.is_pushed(pod, self._default_mode):
            return
        whole = {**pod, "spec": {**(pod.get("spec") or {}), "nodeName": node_name}}
        if self._local.offer(node_name, [whole]):
            return
        door = endpoint_of(node)
        if door is None or self._tls is None or self._rests_until.get(node_name, 0.0) > self._clock.monotonic():
            return
        waiting = self._waiting.get(node_name)
        if waiting is not None:
            if len(waiting) < _WAITING:
                waiting.append((door, whole))
            return
        self._waiting[node_name] = deque([(door, whole)])
        call = asyncio.get_running_loop().create_task(self._deliver(node_name))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def close(self) -> None:
        """Stop all calls."""
        for call in tuple(self._calls):
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        if self._session is not None:
            await self._session.close()

    async def _deliver(self, node: str) -> None:
        waiting = self._waiting[node]
        try:
            while waiting:
                door = waiting[0][0]
                pods: list[dict[str, Any]] = []
                while waiting and waiting[0][0] == door and len(pods) < _TOGETHER:
                    pods.append(waiting.popleft()[1])
                await self._call(door, pods)
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            self._rests_until[node] = self._clock.monotonic() + _REST_S
            log.info("tasks are pulled", node=node, error=str(problem) or type(problem).__name__)
        finally:
            del self._waiting[node]

    async def _call(self, door: WorkerEndpoint, pods: list[dict[str, Any]]) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        body = msgspec.json.encode({"incarnation": door.incarnation, "pods": pods})
        headers = {"Content-Type": "application/json"}
        async with self._session.post(door.url, data=body, headers=headers, ssl=self._tls or True) as answer:
            if answer.status != _OK:
                # Another incarnation, or a worker that has not listed its pods yet: it pulls.
                text = (await answer.text())[:200].strip()
                log.info("a push was refused", url=door.url, code=answer.status, error=text)


def endpoint_of(node: Document | msgspec.Raw | None) -> WorkerEndpoint | None:
    """The endpoint of a node's worker; None if the Node does not have it."""
    if node is None:
        return None
    try:
        found = _decoder.decode(node) if isinstance(node, msgspec.Raw) else msgspec.convert(node, _Node)
        status = found.status
    except msgspec.MsgspecError:
        return None
    addresses = {one.type: one.address for one in status.addresses}
    host = addresses.get("InternalIP") or addresses.get("Hostname") or ""
    # A stock kubelet does not serve this path.
    if not host or not status.node_info.container_runtime_version.startswith(_OURS):
        return None
    return WorkerEndpoint(
        host, status.daemon_endpoints.kubelet_endpoint.port or DEFAULT_PORT, status.node_info.incarnation
    )
