"""Verbs on subresources that are not simply a part of their object: actions, streams and projections."""

from collections.abc import Mapping
from typing import Final

from rota.api import errors, gotext, scopes
from rota.apiserver import routing
from rota.apiserver.http import responses
from rota.apiserver.http.negotiation import Shape
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import Attributes, Stream, SubresourceHandler, SubresourceRequest, Tunnel, User
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import Call

#: Of these the request goes on to another server as it is; see `apiserver/subresources/relay.py`.
PROXIED: Final = routing.TAILED
#: Posted without a body: their parameters are in the query.
CONVERSATIONS: Final = frozenset({"attach", "exec", "portforward"})


async def handle(call: Call, handler: SubresourceHandler) -> responses.Answer | responses.Deferred:
    """Call the subresource's handler."""
    request = call.request
    has_body = request.method in {"POST", "PUT"} and call.route.subresource not in CONVERSATIONS
    asked = SubresourceRequest(
        at=call.at,
        method=request.method,
        body=await call.object_body() if has_body else None,
        query=request.query,
        raw_query=request.raw_query,
        headers=request.headers if scopes.UPGRADE in request.scope else _unable(request.headers),
    )
    reply = await handler.handle(asked, call.registry)
    headers = responses.warning_headers(call.at.warnings)
    if isinstance(reply, Tunnel):
        return responses.Tunnelled(reply.peer, (*reply.headers, *headers))
    if isinstance(reply, Stream):
        return responses.Streamed(reply.chunks, reply.content_type, headers)
    if "items" in reply.object and call.accepted.shape is Shape.TABLE:
        return response_bodies.tabled(call, reply.object["items"], reply.object["metadata"])
    return response_bodies.plain(call, reply.object, code=reply.code)


async def relay(request: Request, route: routing.Route, user: User, registry: ObjectRegistry) -> responses.Answer:
    """Have the subresource's handler pass the request on; its body and parameters are another server's to read."""
    handler = registry.kinds.handlers.get((route.resource.group_resource, route.subresource))
    if handler is None:
        what = f"{route.resource.plural}/{route.subresource}"
        raise errors.MethodNotAllowed(
            f"{what} is not served: {_INSTEAD.get(route.resource.plural, 'ask the object itself')}",
            details=errors.Details(name=route.name, group=route.resource.group, kind=route.resource.plural),
        )
    at = Attributes(
        user=user,
        verb=route.verb,
        resource=route.resource,
        now=registry.clock.now(),
        subresource=route.subresource,
        namespace=route.namespace,
        name=route.name,
        address=request.address,
    )
    upgraded = b"upgrade" in request.headers
    asked = SubresourceRequest(
        at=at,
        method=request.method,
        body=None,
        query=request.query,
        raw_query=request.raw_query,
        headers=request.headers if scopes.UPGRADE in request.scope else _unable(request.headers),
        tail=route.tail,
        prefix=request.path.removesuffix(route.tail) if route.tail else request.path,
        content=b"" if upgraded else await request.body(),
    )
    reply = await handler.handle(asked, registry)
    if isinstance(reply, Tunnel):
        return responses.Tunnelled(reply.peer, reply.headers)
    assert isinstance(reply, Stream), "a proxied answer is passed on as it comes"
    return responses.Streamed(reply.chunks, reply.content_type, reply.headers, reply.code)


#: Why other objects are not reached through the server, and how they are.
_INSTEAD: Final = {
    "nodes": "a worker answers to API servers only; use rota logs, rota exec and rota top",
    "pods": "a pod shares its machine's network, and only its worker knows which ports are its own;"
    " use kubectl port-forward",
    "services": "its pods are reached through their workers; use kubectl port-forward service/NAME",
}


def _unable(headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """The headers without the upgrade, for a connection that cannot be handed over."""
    if headers.get(b"upgrade", b"").lower() != b"websocket":
        return headers
    return {name: value for name, value in headers.items() if name != b"upgrade"}


async def get_projection(call: Call) -> responses.Whole:
    """The projection of the parent."""
    projection = call.registry.kinds.projections[call.route.subresource]
    parent = await call.registry.read(call.resource, call.at.namespace, call.at.name)
    return response_bodies.plain(call, projection.project(parent.object, call.resource))


def refuse(call: Call) -> errors.ApiError:
    """The response for a subresource that exists upstream and not here."""
    what = f"{call.resource.plural}/{call.route.subresource}"
    return errors.MethodNotAllowed(
        f"{call.route.verb} is not supported on resources of kind {gotext.quote(what)}",
        details=errors.Details(name=call.at.name, group=call.resource.group, kind=call.resource.plural),
    )
