"""The server as an ASGI application: one response for each request, and never a traceback.

Everything that a request needs is collected here: its user and permissions, its route, its time, the negotiated
representation. A request is authenticated first, and authorized before the response reveals what exists. Non-resource
pages (health, discovery, ...) are tried in turn before a path gets 404.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from rota.api import errors, scopes
from rota.apiserver import routing
from rota.apiserver.aggregation.aggregator import Aggregator
from rota.apiserver.aggregation.api_services import ApiService
from rota.apiserver.aggregation.backends import is_upgrade
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.authorization import impersonation, request_attributes
from rota.apiserver.encryption.envelope import KeyMissing, Unopenable
from rota.apiserver.flow_control import priority_levels
from rota.apiserver.flow_control.authentication_gate import AuthenticationGate
from rota.apiserver.flow_control.deadlines import Deadlines
from rota.apiserver.flow_control.flow_controller import FlowController, Overloaded
from rota.apiserver.flow_control.seats import State
from rota.apiserver.http import negotiation, responses
from rota.apiserver.http.requests import ClientGone, Receive, Request, Scope, Send
from rota.apiserver.interfaces import Authenticator, Authorizer, Question, User
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.server import verb_dispatch
from rota.apiserver.server.request_metrics import RequestInfo, RequestMetrics
from rota.apiserver.verbs import get, status_batches, subresource
from rota.apiserver.verbs.calls import Call, attributes
from rota.kit import logs
from rota.store import errors as store_errors

log = logs.get(__name__)

#: Answers a non-resource path; None if it is not this page's.
Page: TypeAlias = Callable[[Request], Awaitable[responses.Answer | None]]
_T = TypeVar("_T")
_LISTS: Final = frozenset({"list", "deletecollection"})
_NOT_FOUND: Final = "404 page not found\n"


class App:
    """The ASGI application. Closing it ends its streams."""

    def __init__(
        self,
        registry: ObjectRegistry,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        pages: Sequence[Page],
        request_metrics: RequestMetrics,
        authentication_gate: AuthenticationGate,
        flow_controller: FlowController,
        deadlines: Deadlines,
        auditor: Auditor | None = None,
        aggregator: Aggregator | None = None,
    ) -> None:
        self.registry: Final = registry
        self._authenticator: Final = authenticator
        self._authorizer: Final = authorizer
        self._pages: Final = tuple(pages)
        self._request_metrics: Final = request_metrics
        self._gate: Final = authentication_gate
        self._flow_controller: Final = flow_controller
        self._deadlines: Final = deadlines
        self._auditor: Final = auditor
        self._aggregator: Final = aggregator
        self._router: Final = routing.Router(registry.scheme)
        self._ending: Final = asyncio.Event()

    def close(self) -> None:
        """End every running stream, so that clients reconnect to another server."""
        self._ending.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan, by ASGI."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        request = Request(scope, receive)
        seen = self._request_metrics.begin(request)
        try:
            answer = await self._answer(request, seen)
            seen.answered(answer)
            if self._auditor is None:
                await responses.send(answer, request, send, clock=self.registry.clock, ending=self._ending)
            else:
                await self._send_audited(answer, request, seen, send)
        except ClientGone:
            pass  # the client is gone
        finally:
            if seen.streamer is not None:
                self._flow_controller.close_stream(seen.streamer)
            self._request_metrics.end(seen)

    async def _send_audited(self, answer: responses.Answer, request: Request, seen: RequestInfo, send: Send) -> None:
        assert self._auditor is not None
        # requests that were refused before routing are audited too
        record = seen.record if seen.audited else self._auditor.open(request, None, seen.user)
        if record is not None:
            answer = record.began(answer)
        try:
            await responses.send(answer, request, send, clock=self.registry.clock, ending=self._ending)
        finally:
            if record is not None:
                record.ended(answer)

    async def _answer(self, request: Request, seen: RequestInfo) -> responses.Answer:
        try:
            return await self._timed(request, seen)
        except Overloaded as refusal:
            return refusal.answer
        except errors.ApiError as error:
            return responses.from_error(error)
        except store_errors.StoreError as error:
            return responses.from_error(_store_refusal(error))
        except ClientGone:
            raise
        except Exception as error:  # any error of a request must not stop the server
            log.exception("request failed", error=error, method=request.method, path=request.path)
            return responses.from_error(errors.internal_error("see the server's log"))

    async def _timed(self, request: Request, seen: RequestInfo) -> responses.Answer:
        """The response to an authenticated request within its time limit; streams have none."""
        route: routing.Route | None = None
        nowhere: errors.ApiError | None = None
        elsewhere = self._aggregator.find(request.path) if self._aggregator is not None else None
        try:
            if elsewhere is None:
                route = self._router.match(request.method, request.path, watch=request.flag("watch"))
        except errors.ApiError as error:
            nowhere = error
        # a stream has no time limit, but authentication, which may read the store, has one
        user = await self._within_deadline(request, self._user(request, seen), most_s=self._gate.limit_s)
        if self._auditor is not None:
            seen.record, seen.audited = self._auditor.open(request, route, user, asker=seen.asker), True
        if elsewhere is not None:
            passing = self._pass_on(request, elsewhere, seen)
            return await (passing if _may_last(request) else self._within_deadline(request, passing))
        if route is not None and priority_levels.is_long_running(route):
            return await self._seated(request, route, nowhere, seen)
        return await self._within_deadline(request, self._seated(request, route, nowhere, seen))

    async def _within_deadline(
        self, request: Request, work: Coroutine[Any, Any, _T], *, most_s: float | None = None
    ) -> _T:
        try:
            deadline = self._deadlines.begin(request, most_s=most_s)
        except errors.ApiError:
            work.close()
            raise
        try:
            return await work
        except asyncio.CancelledError:
            if not deadline.explains():
                raise
            raise errors.timeout("request did not complete within the allotted timeout") from None
        finally:
            self._deadlines.end(deadline)

    async def _seated(
        self, request: Request, route: routing.Route | None, nowhere: errors.ApiError | None, seen: RequestInfo
    ) -> responses.Answer:
        """The response, once the request has a seat; that a path matches `nowhere` is revealed to authorized users
        only.
        """
        user = seen.user
        assert user is not None, "the request is authenticated"
        seat_request = self._flow_controller.enter(user, route, request.path)
        try:
            if seat_request.state is State.WAITING:
                await self._flow_controller.wait(seat_request)
            if route is None:
                await self._authorize(
                    request_attributes.about_path(request.method, request.path, user, request.query), seen
                )
                if nowhere is not None:
                    raise nowhere
                return await self._page(request)
            seen.routed(route)
            await self._authorize(request_attributes.about_route(route, user, request.query), seen)
            if route.resource.group_resource == status_batches.BATCHES.group_resource:
                # A batch is only another way to write statuses, and needs the same permission.
                each = status_batches.route(self.registry)
                await self._authorize(request_attributes.about_route(each, user, request.query), seen)
            if priority_levels.is_long_running(route):
                if route.verb == "get" and route.subresource in subresource.CONVERSATIONS:
                    # exec and the like change things: the permission to read is not enough.
                    await self._authorize(
                        request_attributes.about_route(replace(route, verb="create"), user, request.query), seen
                    )
                self._flow_controller.open_stream(user)
                seen.streamer = user
            return await self._resource(request, route, user, seen)
        finally:
            self._flow_controller.leave(seat_request)

    async def _pass_on(self, request: Request, one: ApiService, seen: RequestInfo) -> responses.Answer:
        """The response of an API's own server, to authorized requests only."""
        user = seen.user
        assert user is not None, "the request is authenticated"
        assert self._aggregator is not None, "it has found the API"
        seat_request = self._flow_controller.enter(user, None, request.path)
        try:
            if seat_request.state is State.WAITING:
                await self._flow_controller.wait(seat_request)
            question = request_attributes.about_path(request.method, request.path, user, request.query)
            await self._authorize(question, seen)
            if _may_last(request):
                self._flow_controller.open_stream(user)
                seen.streamer = user
            return await self._aggregator.answer(one, request, user)
        finally:
            self._flow_controller.leave(seat_request)

    async def _resource(
        self, request: Request, route: routing.Route, user: User, seen: RequestInfo
    ) -> responses.Answer:
        if route.subresource in subresource.PROXIED:
            return await subresource.relay(request, route, user, self.registry)
        at_once = await get.express(request, route, self.registry)
        if at_once is not None:
            return at_once
        accepted = negotiation.accepted(request.header(b"accept"), listing=route.verb in _LISTS)
        accepted = negotiation.for_people(
            accepted, parameter=request.query.get("pretty"), agent=request.header(b"user-agent")
        )
        at = attributes(request, route, user, now=self.registry.clock.now())
        call = Call(request=request, route=route, at=at, registry=self.registry, accepted=accepted)
        if call.schema is not None and call.schema.deprecation_warning:
            at.warn(call.schema.deprecation_warning)
        try:
            return await verb_dispatch.answer(call)
        except errors.ApiError as error:
            refusal = responses.from_error(error)
            return replace(refusal, headers=refusal.headers + responses.warning_headers(at.warnings))
        finally:
            if at.annotations and seen.record is not None:
                seen.record.annotated(at.annotations)

    async def _user(self, request: Request, seen: RequestInfo) -> User:
        acting_as: User | None = request.scope.get(scopes.ACTING_AS)
        asker = acting_as or await self._authenticated(request)
        seen.asker = seen.user = asker
        seen.user = user = await impersonation.acting_user(
            asker, request.headers, request.scope["headers"], self._authorizer
        )
        return user

    async def _authenticated(self, request: Request) -> User:
        """The user by the request's credentials; while they are verified, the request has a seat of its own kind."""
        credentials = request.credentials()
        known = self._authenticator.recall(credentials)
        if known is not None:
            return known
        flow = self._authenticator.flow(credentials)
        self._gate.enter(flow)
        try:
            return await self._authenticator.authenticate(credentials)
        except errors.Unauthorized:
            self._gate.failed(flow)
            raise
        finally:
            self._gate.leave(flow)

    async def _authorize(self, question: Question, seen: RequestInfo) -> None:
        verdict = await self._authorizer.authorize(question)
        if seen.record is not None:
            seen.record.judged(verdict)
        if not verdict.allowed:
            raise request_attributes.refusal(question, verdict)

    async def _page(self, request: Request) -> responses.Answer:
        for page in self._pages:
            answer = await page(request)
            if answer is not None:
                return answer
        return responses.text(404, _NOT_FOUND)


def _may_last(request: Request) -> bool:
    """Whether the response of another server may last as long as the client wants: a watch, or a WebSocket."""
    return request.flag("watch") or is_upgrade(request) or request.path.split("/")[4:5] == ["watch"]


def _store_refusal(error: store_errors.StoreError) -> errors.ApiError:
    log.warning("store request failed", error=str(error))
    match error:
        case store_errors.Expired():
            return errors.expired(f"too old resource version: {error.revision} ({error.floor})")
        case store_errors.FutureRevision():
            return errors.resource_version_too_large(error.revision, error.newest)
        case store_errors.Unavailable() if error.uncertain:
            return errors.timeout("the store did not say whether the write happened", retry_after_seconds=1)
        case store_errors.Unavailable() | store_errors.Closed():
            return errors.service_unavailable("the store does not answer; try again")
        case KeyMissing() | Unopenable() | store_errors.NoSpace() | store_errors.ReadOnly() | store_errors.Lost():
            return errors.internal_error(error.message)
        case _:
            return errors.internal_error(f"the store cannot do this: {type(error).__name__}")


async def _live(receive: Receive, send: Send) -> None:
    """Acknowledge startup and shutdown; the owner runs the background tasks."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
