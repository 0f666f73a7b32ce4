"""gRPC to etcd: which member to ask, who we are, how long to wait, when to ask again.

One channel per member, opened on demand; calls go to one of them until it fails, then to the next. A read is
repeated while `Settings.patience_s` lasts. A write is repeated only if the failed attempt certainly was not carried
out; otherwise its caller hears `Unavailable` with `uncertain` set. Knows etcd's methods, not what they are for.
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

#: How long one attempt may take. Longer than etcd's own limit of about 7 s, so that its answer comes first.
CALL_S = 10.0
#: How long the first contact with a member may take: who opens a store waits for the answer.
FIRST_CONTACT_S = 3.0

_OPTIONS = (
    # A list may be long; how much is asked for at once is decided where it is asked.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A member that went silent is noticed after 15 s; etcd does not allow pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # The pauses between our own attempts are in `Settings.retry`; gRPC's would grow to minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Every store has connections of its own, and none through a web proxy.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

#: How long gRPC gets to tell the event loop of calls that ended with their channel.
_LAST_WORDS_S = 0.01

#: Tells a member without a leader to say so at once, instead of letting us wait for one.
_REQUIRE_LEADER = ("hasleader", "true")
_ANYBODY = grpc.aio.Metadata(_REQUIRE_LEADER)


class Member:
    """The channel to one member, with a callable per method."""

    def __init__(self, endpoint: str, address: Address) -> None:
        if address.tls is None:
            self._channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(address.tls.ca, address.tls.key, address.tls.cert)
            self._channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        self._callables: dict[str, Any] = {}

    def callable(self, method: Method[Request, Response]) -> Any:
        """What gRPC calls a multi-callable."""
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
        """End what runs and let go."""
        await self._channel.close()


class Connection:
    """Calls to a cluster of one or more members."""

    def __init__(self, address: Address, *, time: clock.Clock, rng: backoff.Rng, settings: Settings) -> None:
        self.address = address
        self._time = time
        self._rng = rng
        self._settings = settings
        #: Channels by number in `address.endpoints`, made when first needed.
        self._members: dict[int, Member] = {}
        self._current = 0
        #: What every call carries: who we are, once that is known.
        self._headers: Any = None if address.user else _ANYBODY
        self._login = asyncio.Lock()
        self.outage = Outage(time=time)
        #: Calls under way, for `close` to wait for.
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Call a method, patiently."""
        return await self.patiently(lambda: self._attempt(method, request, CALL_S))

    async def first_contact(self, method: Method[Request, Response], request: Request) -> Response:
        """Call a method on each member in turn, once: whoever opens a store wants to know soon that it is not there."""
        for _ in self.address.endpoints[1:]:
            with contextlib.suppress(errors.Unavailable):
                return await self._attempt(method, request, FIRST_CONTACT_S)
        return await self._attempt(method, request, FIRST_CONTACT_S)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: Method[Request, Response], request: Request, *, timeout: float | None = None
    ) -> AsyncIterator[Callable[[], Awaitable[Response]]]:
        """Open a stream with one request; what is yielded reads the next answer, and ends by an error only."""
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
            if not call.done():  # else the first read says why
                await outcome(call.write(request))
            yield read
        finally:
            call.cancel()

    async def patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat while no member answers, with growing pauses, as long as patience lasts."""
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
        """Log in anew before the next call."""
        self._headers = None if self.address.user else _ANYBODY

    async def close(self) -> None:
        """Wait for the calls under way, refuse others, end streams, let go of the channels."""
        self._closing.set()
        await self._idle.wait()
        for member in self._members.values():
            await member.close()
        self._members.clear()
        # The end of a cancelled call comes in from gRPC's thread a moment later, and complains if the event loop is
        # closed by then; gRPC offers nothing to wait for.
        await asyncio.sleep(_LAST_WORDS_S)

    async def _attempt(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        """One try, or two where the first only showed that our login has run out."""
        if self._closing.is_set():
            raise errors.Closed
        self._calls += 1
        self._idle.clear()
        try:
            headers = self._headers or await self._log_in()
            try:
                return await self._send(method, request, headers, timeout)
            except faults.TokenRefused:
                # Unless another call that was under way has logged in meanwhile.
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
        """The headers of a call, which name the user; not, as with etcd's own client, where etcd has no users."""
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
        """What a failed call to member `number` is to us; if that is away, others are asked from now on."""
        if isinstance(problem, asyncio.CancelledError):
            # gRPC cancels who waits for a call whose channel is closed; nobody cancelled that task.
            task = asyncio.current_task()
            ours = self._closing.is_set() and call.cancelled() and not (task and task.cancelling())
            return errors.Closed() if ours else problem
        assert isinstance(problem, grpc.aio.AioRpcError)
        where = f"etcd at {self.address.endpoints[number]}"
        error = faults.translate(problem.code(), problem.details() or "", where=where, writes=method.writes)
        # Unless another call has turned to the next one already.
        if isinstance(error, errors.Unavailable) and self._current == number:
            self._current = (number + 1) % len(self.address.endpoints)
        return error
