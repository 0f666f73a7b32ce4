"""Bind requests: bindings on their way to the API server, batched where the server supports it.

`submit` does not wait. Bindings queue up while earlier requests are in flight, so batches grow with the load. The size
of a batch and the number of concurrent requests are limited. Each binding gets its own result. If a request fails in a
way that leaves its outcome unknown, the pod is read until its state, or the watch, shows the outcome. Until then no
result is reported, so the resources of the pod stay reserved. These reads do not delay other bindings.

A server that supports batches rejects a binding that no longer fits. A stock API server accepts every binding, and the
kubelet then fails the pod. There the node is checked once more before a binding is sent, because another scheduler may
have bound a pod to it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

from rota.api import errors, gpu_devices
from rota.api.errors import ApiError
from rota.client import pods as pod_calls
from rota.client.pods import PODS, Binding
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.columns.pods import PodInfo
from rota.kit import backoff, logs
from rota.kit.backoff import Backoff, Rng
from rota.kit.clock import Clock
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.status import SUCCESS, Code, Status

log = logs.get(__name__)

#: Receives the result of a binding; a rejection carries the server's error.
Done: TypeAlias = Callable[[Status], None]

#: A transaction of Rota's API server holds 128 keys. Two are for the fences of the leader and of the store's role, and
#: two are for the claims of a namespace and the limits of queues. Pods on nodes of their own have three keys each, so a
#: batch of this size is usually one transaction.
MOST_KEYS: Final = 125
BATCH: Final = 42
#: Concurrent requests, for batches and for single bindings.
BATCHES_AT_ONCE: Final = 6
SINGLES_AT_ONCE: Final = 64
#: Timeout of one request.
TIMEOUT_S: Final = 30.0

_GROUP_VERSION: Final = "/apis/rota.dev/v1alpha1"
#: HTTP codes that do not say whether the server applied the request.
_UNCERTAIN: Final = frozenset({500, 502, 504})
#: Number of failed reads after which a line is logged.
_READS: Final = 5
_READ_BACKOFF: Final = backoff.Policy(initial_s=0.2, cap_s=5.0)
_DISCOVERY: Final = backoff.Policy(initial_s=0.2, cap_s=5.0)
_STOPPED: Final = Status(Code.ERROR, ("the scheduler stopped before it knew whether the pod was bound",))


def _nothing(_: PodInfo, __: str) -> str:
    return ""


class Knowledge(Protocol):
    """Up to which version the nodes are known, for servers that refuse bindings to nodes that have changed since."""

    def seen(self, node: str) -> str:
        """The resourceVersion; empty if bindings do not depend on it."""
        ...

    def latest(self, node: str, seen: str) -> str:
        """What was seen there, or the version of this scheduler's own last binding there if that is later."""
        ...

    def bound(self, node: str, version: str) -> None:
        """A pod was bound there at this version."""
        ...


@dataclass(frozen=True, slots=True)
class _BindRequest:
    pod: PodInfo
    binding: Binding
    done: Done

    def answer(self, status: Status) -> None:
        """Report the result to the submitter; an exception there does not affect the other bindings of the request."""
        try:
            self.done(status)
        except Exception as error:
            log.exception("handler of a binding's result failed", error=error, pod=self.binding.key)


class BindRequestQueue:
    """Sends bind requests. Also the `Binder` of every framework."""

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, insufficient: Callable[[PodInfo, str], str] = _nothing
    ) -> None:
        """`lacking` names the resource that a node has too little of for all its pods; see
        `SchedulerCache.insufficient`."""
        self._insufficient: Final = insufficient
        # No retries: after a broken request the outcome is found by reading the pod, not by sending the binding again.
        self._client: Final = client.with_settings(timeout_s=TIMEOUT_S, retry=False)
        self._clock: Final = clock
        self._rng: Final = rng
        self._waiting: Final[deque[_BindRequest]] = deque()
        #: Bindings that must all succeed or all fail, not sent yet.
        self._together: Final[deque[list[_BindRequest]]] = deque()
        self._under_way: Final[set[asyncio.Task[None]]] = set()
        #: Bindings with an unknown outcome by pod uid, and the tasks that read these pods.
        self._unsure: Final[dict[str, _BindRequest]] = {}
        self._reading: Final[set[asyncio.Task[None]]] = set()
        self._reads: Final = asyncio.Semaphore(SINGLES_AT_ONCE)
        self._closing: Final = asyncio.Event()
        self._flushing = False
        #: Whether the server supports batches; `discover` finds out once.
        self.batches = False
        #: Given if bindings may depend on what is known of their nodes.
        self.knowledge: Knowledge | None = None

    def __len__(self) -> int:
        """Bindings that are not sent yet."""
        return len(self._waiting) + sum(map(len, self._together))

    async def discover(self) -> None:
        """Find out whether the server supports batches."""
        try:
            found = await self._client.request("GET", _GROUP_VERSION)
        except errors.NotFound:
            self.batches = False
        else:
            self.batches = b'"bindingbatches"' in found
        log.info("bindings", batches=self.batches)

    async def discover_when_ready(self) -> None:
        """The same, and again until the server answers."""
        pauses = Backoff(_DISCOVERY, self._rng)
        while True:
            try:
                await self.discover()
            except (ApiError, TransportError) as error:
                log.info("server does not say what it can do", error=error)
                await self._clock.sleep(pauses.next())
            else:
                return

    def submit(self, pod: PodInfo, node_name: str, done: Done) -> None:
        """Bind the pod to the node; `done` is called once, on the event loop."""
        self._waiting.append(self._bind_request(pod, node_name, done))
        self._flush_soon()

    def submit_together(self, placed: Sequence[tuple[PodInfo, str, Done]]) -> None:
        """Bind all of these pods or none; only for servers that support batches, and within `fits_transaction`."""
        self._together.append([self._bind_request(*each) for each in placed])
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            # In the next turn of the event loop, so that bindings submitted in this turn share a request.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def bind(self, pod: PodInfo, node_name: str) -> Status:
        """See `Binder.bind`."""
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.submit(pod, node_name, lambda status: None if answer.done() else answer.set_result(status))
        return await answer

    def seen(self, uid: str, node_name: str) -> None:
        """Resolve an unknown outcome: the watch shows the pod on a node."""
        request = self._unsure.get(uid)
        if request is not None:
            elsewhere = Status(Code.ERROR, (f"the pod was bound to {node_name}",))
            self._settle(request, SUCCESS if node_name == request.binding.node else elsewhere)

    async def close(self) -> None:
        """Send no more bindings and wait for the requests in flight, so that their outcomes are known.

        Pods that cannot be read are given up. Their state is known from the watch before the next leader schedules.
        """
        for request in (*self._waiting, *(one for gang in self._together for one in gang)):
            request.answer(Status(Code.ERROR, ("the scheduler stopped before the pod was bound",)))
        self._waiting.clear()
        self._together.clear()
        self._closing.set()
        while under_way := self._under_way | self._reading:
            await asyncio.wait(under_way)
        self._closing.clear()

    def _flush(self) -> None:
        self._flushing = False
        most = BATCHES_AT_ONCE if self.batches else SINGLES_AT_ONCE
        first = [*([self._waiting[0]] if self._waiting else ()), *(self._together[0] if self._together else ())]
        if any(one.binding.seen for one in first):
            most = 1  # a binding of a request that is under way would count as a change of the node
        size = BATCH if self.batches else 1
        while self._together and len(self._under_way) < most:
            self._start(self._send_together(self._next_together()))
        while self._waiting and len(self._under_way) < most:
            portion = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
            if self.batches:
                self._start(self._send_batch(portion))
            elif missing := self._insufficient(portion[0].pod, portion[0].binding.node):
                portion[0].answer(_too_late(portion[0].binding.node, missing))
            else:
                self._start(self._send(portion[0]))

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(sending)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.exception("binding crashed", error=error)
        self._flush()

    async def _send_batch(self, requests: Sequence[_BindRequest]) -> None:
        try:
            verdicts = await self._bind_many(requests)
            if len(verdicts) != len(requests):
                raise ValueError(f"{len(requests)} bindings got {len(verdicts)} verdicts")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, every pod gets an answer
            _log_bind_error(error, len(requests))
            for request in requests:
                self._conclude(request, error)
            return
        for request, verdict in zip(requests, verdicts, strict=True):
            self._conclude(request, verdict)

    async def _bind_many(
        self, requests: Sequence[_BindRequest], *, atomic: bool = False
    ) -> list[ApiError | TransportError | None]:
        bindings = [request.binding for request in requests]
        if self.knowledge is None:
            return await pod_calls.bind_many(self._client, bindings, atomic=atomic)
        # This scheduler's own bindings since the decision are no news.
        latest = self.knowledge.latest
        bindings = [replace(one, seen=latest(one.node, one.seen)) if one.seen else one for one in bindings]
        return await pod_calls.bind_many(self._client, bindings, atomic=atomic, learned=self.knowledge.bound)

    def _bind_request(self, pod: PodInfo, node: str, done: Done) -> _BindRequest:
        devices = {gpu_devices.ANNOTATION: gpu_devices.shown(pod.gpu_devices)} if pod.gpu_devices else {}
        seen = self.knowledge.seen(node) if self.knowledge is not None and self.batches else ""
        binding = Binding(namespace=pod.namespace, pod=pod.name, node=node, uid=pod.uid, annotations=devices, seen=seen)
        return _BindRequest(pod, binding, done)

    def _next_together(self) -> list[list[_BindRequest]]:
        """As many gangs as one transaction holds."""
        gangs = [self._together.popleft()]
        pods, nodes = len(gangs[0]), {request.binding.node for request in gangs[0]}
        while self._together:
            more = self._together[0]
            both = nodes | {request.binding.node for request in more}
            if not _fits(pods + len(more), len(both)):
                break
            gangs.append(self._together.popleft())
            pods, nodes = pods + len(more), both
        return gangs

    async def _send_together(self, gangs: Sequence[list[_BindRequest]]) -> None:
        requests = [request for gang in gangs for request in gang]
        try:
            verdicts = await self._bind_many(requests, atomic=True)
            if len(verdicts) != len(requests):
                raise ValueError(f"{len(requests)} bindings got {len(verdicts)} verdicts")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, every pod gets an answer
            _log_bind_error(error, len(requests))
            for request in requests:
                self._conclude(request, error)
            return
        if len(gangs) > 1 and any(verdicts):
            # One gang of several was refused, and so none was bound: each is sent alone.
            for gang in gangs:
                await self._send_together([gang])
            return
        for request, verdict in zip(requests, verdicts, strict=True):
            self._conclude(request, verdict)

    async def _send(self, request: _BindRequest) -> None:
        try:
            await pod_calls.bind(self._client, request.binding)
        except Exception as error:  # noqa: BLE001 - as above
            _log_bind_error(error, 1)
            self._conclude(request, error)
        else:
            request.answer(SUCCESS)

    def _conclude(self, request: _BindRequest, error: Exception | None) -> None:
        if error is None:
            request.answer(SUCCESS)
        elif not _open(error):
            request.answer(_refused(error))
        else:
            self._unsure[request.binding.uid] = request
            task = asyncio.get_running_loop().create_task(self._find_out(request, error))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    def _settle(self, request: _BindRequest, status: Status) -> None:
        if self._unsure.get(request.binding.uid) is request:
            del self._unsure[request.binding.uid]
            request.answer(status)

    async def _find_out(self, request: _BindRequest, error: Exception) -> None:
        """Read the pod until the outcome of its binding is known."""
        pauses = Backoff(_READ_BACKOFF, self._rng)
        while self._unsure.get(request.binding.uid) is request:
            last = self._closing.is_set()
            status = await self._read_back(request.binding, error)
            if status is not None or last:
                self._settle(request, status or _STOPPED)
                return
            pause = pauses.next()
            if pauses.failures == _READS:
                log.warning("outcome of a binding is still unknown", pod=request.binding.key)
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(self._closing.wait(), pause)

    async def _read_back(self, binding: Binding, error: Exception) -> Status | None:
        """Read the pod for the outcome of its binding; None if it cannot be read."""
        try:
            async with self._reads:
                pod = await self._client.get(PODS, binding.pod, namespace=binding.namespace)
            same = (pod["metadata"].get("uid") or "") == binding.uid
            bound_to = (pod.get("spec") or {}).get("nodeName") or ""
        except errors.NotFound as gone:
            return _refused(gone)
        except Exception as problem:  # an answer that cannot be understood is none
            if isinstance(problem, ApiError | TransportError):
                log.info("pod cannot be read", pod=binding.key, error=problem)
            else:
                log.exception("pod cannot be read", error=problem, pod=binding.key)
            return None
        return SUCCESS if same and bound_to == binding.node else _refused(error)


def fits_transaction(nodes: Sequence[str]) -> bool:
    """Whether pods that get these nodes, one entry a pod, can be bound in one transaction."""
    return _fits(len(nodes), len(set(nodes)))


def _fits(pods: int, nodes: int) -> bool:
    # One key for each pod, and two for each node.
    return pods + 2 * nodes < MOST_KEYS


def _open(error: Exception) -> bool:
    """Whether the pod may have been bound despite the error."""
    if isinstance(error, TransportError):
        return error.uncertain
    return error.code in _UNCERTAIN if isinstance(error, ApiError) else True


def _refused(error: Exception) -> Status:
    if isinstance(error, ApiError | TransportError):
        return Status(Code.ERROR, (str(error),), error=error)
    return statuses.fault(error)


def _too_late(node: str, resource: str) -> Status:
    """The result that a server with an overcommit check would give."""
    told = f"another scheduler was faster: {node} has not enough {resource} any more"
    cause = errors.Cause(type="InsufficientResource", message=told, field=resource)
    return _refused(errors.Conflict(told, details=errors.Details(causes=(cause,))))


def _log_bind_error(error: Exception, bindings: int) -> None:
    if not isinstance(error, ApiError | TransportError):
        log.exception("binding crashed", error=error, bindings=bindings)
    elif _open(error):
        log.warning("bind request got no answer", error=error, bindings=bindings)
