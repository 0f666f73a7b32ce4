"""gRPC to etcd: which member to ask, who we are, how long to wait, when to ask again.

One channel per member, opened on demand; calls go to one of them until it fails, then to the next. A read is
repeated while `Settings.patience_s` lasts. A write is repeated only if the failed attempt certainly was not carried
out; otherwise its caller hears `Unavailable` with `uncertain` set. Knows etcd's methods, not what they are for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc  # type: ignore[import-untyped]  # ships no types
import grpc.aio  # type: ignore[import-untyped]
from google.protobuf.message import Message

from rota.kit import backoff, clock, logs
from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults
from rota.store.backends.etcd.address import Address
from rota.store.logstore import Settings

log = logs.get(__name__)

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)
_T = TypeVar("_T")

#: How long one attempt may take. Longer than etcd's own limit of about 7 s, so that its answer comes first.
CALL_S = 10.0
#: How long the first contact with a member may take: who opens a store waits for the answer.
FIRST_CONTACT_S = 3.0


@dataclass(frozen=True, slots=True)
class Method(Generic[_Request, _Response]):
    """One of etcd's methods."""

    path: str
    request: type[_Request]
    response: type[_Response]
    #: Whether a call that failed half-way may have changed something that a second one would not find unchanged.
    writes: bool = False
    streams: bool = False


RANGE = Method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
PUT = Method("/etcdserverpb.KV/Put", pb.PutRequest, pb.PutResponse)
TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse, writes=True)
READ_TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse, streams=True)
# A lease granted to nobody expires; so a grant may be repeated.
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse)
LEASE_REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse, writes=True)
LEASE_KEEP_ALIVE = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse, streams=True
)
LEASE_TIME_TO_LIVE = Method(
    "/etcdserverpb.Lease/LeaseTimeToLive", pb.LeaseTimeToLiveRequest, pb.LeaseTimeToLiveResponse
)
AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)

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


class Member:
    """The channel to one member, with a callable per method."""

    def __init__(self, endpoint: str, address: Address) -> None:
        if address.tls is None:
            self._channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(address.tls.ca, address.tls.key, address.tls.cert)
            self._channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        self._callables: dict[str, Any] = {}

    def callable(self, method: Method[_Request, _Response]) -> Any:
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

    def __init__(self, address: Address, *, time: clock.Clock, chance: backoff.Chance, settings: Settings) -> None:
        self.address = address
        self._time = time
        self._chance = chance
        self._settings = settings
        #: Channels by number in `address.endpoints`, made when first needed.
        self._members: dict[int, Member] = {}
        self._current = 0
        #: Proves who we are; empty where that is not needed, None before the login.
        self._token: str | None = None if address.user else ""
        self._login = asyncio.Lock()
        #: Calls under way, for `close` to wait for.
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()

    async def call(self, method: Method[_Request, _Response], request: _Request) -> _Response:
        """Call a method, patiently."""
        return await self.patiently(lambda: self._attempt(method, request, CALL_S))

    async def first_contact(self, method: Method[_Request, _Response], request: _Request) -> _Response:
        """Call a method on each member in turn, once: whoever opens a store wants to know soon that it is not there."""
        for _ in self.address.endpoints[1:]:
            with contextlib.suppress(errors.Unavailable):
                return await self._attempt(method, request, FIRST_CONTACT_S)
            self.turn_away()
        return await self._attempt(method, request, FIRST_CONTACT_S)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: Method[_Request, _Response], request: _Request, *, timeout: float | None = None
    ) -> AsyncIterator[Callable[[], Awaitable[_Response]]]:
        """Open a stream with one request; what is yielded reads the next answer, and ends by an error only."""
        if self._closing.is_set():
            raise errors.Closed
        call = self._member().callable(method)(metadata=await self._metadata(), timeout=timeout)

        async def read() -> _Response:
            with self._translated(method, call):
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise errors.Unavailable(f"{self.address} ended a stream", "check that it runs")
                assert isinstance(answer, method.response)
                return answer

        try:
            with self._translated(method, call):
                if not call.done():  # else the first read says why
                    await call.write(request)
            yield read
        finally:
            call.cancel()

    async def patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat while no member answers, with growing pauses, as long as patience lasts."""
        pause = backoff.Backoff(self._settings.retry, self._chance)
        deadline = self._time.monotonic() + self._settings.patience_s
        while True:
            try:
                return await call()
            except errors.Unavailable as problem:
                self.turn_away()
                delay = pause.next()
                if problem.uncertain or self._time.monotonic() + delay > deadline:
                    raise
                log.warning("etcd does not answer, trying again", problem=problem, delay_s=round(delay, 3))
            await self.sleep(delay)

    async def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the closing of the connection; that raises `Closed`."""
        with contextlib.suppress(TimeoutError):
            await self._time.wait_for(self._closing.wait(), seconds)
            raise errors.Closed

    def turn_away(self) -> None:
        """Try the next member from now on."""
        self._current = (self._current + 1) % len(self.address.endpoints)

    def forget_login(self) -> None:
        """Log in anew before the next call."""
        self._token = None if self.address.user else ""

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

    async def _attempt(self, method: Method[_Request, _Response], request: _Request, timeout: float) -> _Response:
        """One try, or two where the first only showed that our login has run out."""
        if self._closing.is_set():
            raise errors.Closed
        self._calls += 1
        self._idle.clear()
        try:
            metadata = await self._metadata()
            try:
                return await self._send(method, request, metadata, timeout)
            except faults.TokenRefused:
                # Unless another call that was under way has logged in meanwhile.
                if metadata == await self._metadata():
                    self.forget_login()
                return await self._send(method, request, await self._metadata(), timeout)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _send(
        self,
        method: Method[_Request, _Response],
        request: _Request,
        metadata: Sequence[tuple[str, str]],
        timeout: float,
    ) -> _Response:
        call = self._member().callable(method)(request, metadata=metadata, timeout=timeout)
        with self._translated(method, call):
            answer = await call
        assert isinstance(answer, method.response)
        return answer

    async def _metadata(self) -> Sequence[tuple[str, str]]:
        """Headers of a call; logs in first where the URL names a user."""
        if self._token is None:
            async with self._login:
                if self._token is None:
                    self._token = await self._log_in()
        return (_REQUIRE_LEADER, ("token", self._token)) if self._token else (_REQUIRE_LEADER,)

    async def _log_in(self) -> str:
        """A token; none where etcd has no users, so that the URL's goes unasked, as with etcd's own client."""
        request = pb.AuthenticateRequest(name=self.address.user, password=self.address.password)
        try:
            return (await self._send(AUTHENTICATE, request, (_REQUIRE_LEADER,), CALL_S)).token
        except faults.LoginNotNeeded:
            return ""

    def _member(self) -> Member:
        if self._current not in self._members:
            self._members[self._current] = Member(self.address.endpoints[self._current], self.address)
        return self._members[self._current]

    @contextlib.contextmanager
    def _translated(self, method: Method[_Request, _Response], call: Any) -> Iterator[None]:
        """Raise gRPC's errors as ours."""
        try:
            yield
        except grpc.aio.AioRpcError as problem:
            raise faults.translate(
                problem.code(), problem.details() or "", where=str(self.address), writes=method.writes
            ) from None
        except asyncio.CancelledError:
            # gRPC cancels the waiting task where the channel was closed under the call; nobody cancelled that task.
            task = asyncio.current_task()
            if self._closing.is_set() and call.cancelled() and not (task and task.cancelling()):
                raise errors.Closed from None
            raise
