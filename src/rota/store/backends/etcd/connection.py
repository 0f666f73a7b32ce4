"""gRPC calls to etcd: choice of a member, login, timeouts and retries.

There is one channel per member, opened on demand; calls go to one member until it fails, then to the next. A read is
repeated for up to `Settings.patience_s`. A write is repeated only if the failed attempt certainly had no effect;
otherwise its caller gets `Unavailable` with `uncertain` set. This module knows etcd's methods, not their use.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]  # ships no types
import grpc.aio  # type: ignore[import-untyped]

from rota.kit import backoff, clock
from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults, methods
from rota.store.backends.etcd.address import Address
from rota.store.backends.etcd.methods import Method, Request, Response
from rota.store.logstore import Settings
from rota.store.outages import Outage

_T = TypeVar("_T")

#: Timeout of one attempt. Longer than etcd's own limit of about 7 s, so that its response comes first.
CALL_S = 10.0
#: Timeout of the first call to a member: opening a store waits for it.
FIRST_CONTACT_S = 3.0

_OPTIONS = (
    # A list may be long; the caller limits how much one call returns.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A silent member is detected after 15 s; etcd does not allow pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # The pauses between attempts are in `Settings.retry`; gRPC's would grow to minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Every store has its own connections, and uses no web proxy.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

#: How long gRPC gets to report calls that ended with their channel to the event loop.
_LAST_WORDS_S = 0.01

#: Makes a member without a leader say so at once, instead of waiting for one.
_REQUIRE_LEADER = ("hasleader", "true")
_ANYBODY = grpc.aio.Metadata(_REQUIRE_LEADER)


class Member:
    """The channel to one member, with a callable for each method."""

    def __init__(self, endpoint: str, address: Address) -> None:
        if address.tls is None:
            self._channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(address.tls.ca, address.tls.key, address.tls.cert)
            self._channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        self._callables: dict[str, Any] = {}

    def callable(self, method: Method[Request, Response]) -> Any:
        """A multi-callable of gRPC."""
        found = self._callables.get(method.path)
        if found is None:
            make = self._channel.stream_stream if method.streams else self._channel.unary_unary
            found = self._callables[method.path] = make(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
        return found

    async def close(self) -> None:
        """Cancel running calls and close the channel."""
        await self._channel.close()


class Connection:
    """Calls to a cluster of one or more members."""

    def __init__(self, address: Address, *, time: clock.Clock, rng: backoff.Rng, settings: Settings) -> None:
        self.address = address
        self._time = time
        self._rng = rng
        self._settings = settings
        #: Channels by index in `address.endpoints`, opened when first needed.
        self._members: dict[int, Member] = {}
        self._current = 0
        #: Metadata of every call: the login token, once there is one.
        self._headers: Any = None if address.user else _ANYBODY
        self._login = asyncio.Lock()
        self.outage = Outage(time=time)
        #: Running calls; `close` waits for them.
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Call a method, with retries."""
        return await self.patiently(lambda: self._attempt(method, request, CALL_S))

    async def first_contact(self, method: Method[Request, Response], request: Request) -> Response:
        """Call a method on each member in turn, once: opening a store should fail soon if etcd is not reachable."""
        for _ in self.address.endpoints[1:]:
            with contextlib.suppress(errors.Unavailable):
                return await self._attempt(method, request, FIRST_CONTACT_S)
        return await self._attempt(method, request, FIRST_CONTACT_S)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: Method[Request, Response], request: Request, *, timeout: float | None = None
    ) -> AsyncIterator[Callable[[], Awaitable[Response]]]:
        """Open a stream with one request; yields a function that reads the next response. It ends only by an error."""
        if self._closing.is_set():
            raise errors.Closed
        headers, number = self._headers or await self._log_in(), self._current
        call = self._member().callable(method)(metadata=headers, timeout=timeout)

        async def outcome(step: Awaitable[Any]) -> Any:
            try:
                return await step
            except (grpc.aio.AioRpcError, asyncio.CancelledError) as problem:
                raise self._error(problem, method, call, number) from None

        async def read() -> Response:
            answer = await outcome(call.read())
            if answer is grpc.aio.EOF:
                raise errors.Unavailable(f"{self.address} ended a stream", "check that it runs")
            assert isinstance(answer, method.response)
            return answer

        try:
            if not call.done():  # otherwise the first read raises the reason
                await outcome(call.write(request))
            yield read
        finally:
            call.cancel()

    async def patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat while no member answers, with growing pauses, until `patience_s` is over."""
        start = self._time.monotonic()
        pause: backoff.Backoff | None = None
        while True:
            began = self._time.monotonic()
            try:
                answer = await call()
            except errors.Unavailable as problem:
                self.outage.failed(problem)
                pause = pause or backoff.Backoff(self._settings.retry, self._rng)
                delay = pause.next()
                if problem.uncertain or self._time.monotonic() + delay > start + self._settings.patience_s:
                    raise
            else:
                self.outage.answered(began)
                return answer
            with contextlib.suppress(TimeoutError):
                await self._time.wait_for(self._closing.wait(), delay)

    def forget_login(self) -> None:
        """Log in again before the next call."""
        self._headers = None if self.address.user else _ANYBODY

    async def close(self) -> None:
        """Wait for running calls, refuse new ones, end streams, close the channels."""
        self._closing.set()
        await self._idle.wait()
        for member in self._members.values():
            await member.close()
        self._members.clear()
        # gRPC's thread reports the end of a cancelled call a moment later, and logs an error if the event loop is
        # closed by then. There is nothing to wait for.
        await asyncio.sleep(_LAST_WORDS_S)

    async def _attempt(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        """One attempt, or two if the first one only showed that the login token has expired."""
        if self._closing.is_set():
            raise errors.Closed
        self._calls += 1
        self._idle.clear()
        try:
            headers = self._headers or await self._log_in()
            try:
                return await self._send(method, request, headers, timeout)
            except faults.TokenRefused:
                # Unless a concurrent call has logged in meanwhile.
                if self._headers is headers:
                    self.forget_login()
                return await self._send(method, request, self._headers or await self._log_in(), timeout)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _send(
        self, method: Method[Request, Response], request: Request, headers: Any, timeout: float
    ) -> Response:
        number = self._current
        call = self._member().callable(method)(request, metadata=headers, timeout=timeout)
        try:
            answer = await call
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as problem:
            raise self._error(problem, method, call, number) from None
        assert isinstance(answer, method.response)
        return answer

    async def _log_in(self) -> Any:
        """The metadata of a call with the login token; empty, unlike with etcd's own client, if etcd has no users."""
        async with self._login:
            if self._headers is None:
                request = pb.AuthenticateRequest(name=self.address.user, password=self.address.password)
                try:
                    token = (await self._send(methods.AUTHENTICATE, request, _ANYBODY, CALL_S)).token
                    self._headers = grpc.aio.Metadata(_REQUIRE_LEADER, ("token", token))
                except faults.LoginNotNeeded:
                    self._headers = _ANYBODY
        return self._headers

    def _member(self) -> Member:
        if self._current not in self._members:
            self._members[self._current] = Member(self.address.endpoints[self._current], self.address)
        return self._members[self._current]

    def _error(
        self, problem: BaseException, method: Method[Request, Response], call: Any, number: int
    ) -> BaseException:
        """The store error for a failed call to member `number`; if that member is down, later calls use another one."""
        if isinstance(problem, asyncio.CancelledError):
            # gRPC cancels the waiting task when a call's channel is closed; the task itself was not cancelled.
            task = asyncio.current_task()
            ours = self._closing.is_set() and call.cancelled() and not (task and task.cancelling())
            return errors.Closed() if ours else problem
        assert isinstance(problem, grpc.aio.AioRpcError)
        where = f"etcd at {self.address.endpoints[number]}"
        error = faults.translate(problem.code(), problem.details() or "", where=where, writes=method.writes)
        # Unless a concurrent call has switched to the next member already.
        if isinstance(error, errors.Unavailable) and self._current == number:
            self._current = (number + 1) % len(self.address.endpoints)
        return error
