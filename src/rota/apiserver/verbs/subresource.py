"""Verbs on subresources that are not simply a part of their object: actions, streams and projections."""

from collections.abc import Mapping
from typing import Final

from rota.api import errors, gotext, scopes
from rota.apiserver.http import responses
from rota.apiserver.http.negotiation import Shape
from rota.apiserver.interfaces import Stream, SubresourceHandler, SubresourceRequest, Tunnel
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import Call

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
