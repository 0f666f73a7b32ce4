"""GET of one object.

The response is the store's state at the time of the request. A GET of a plain object is the most frequent request, and
goes directly from its path to the stored bytes.
"""

from rota.api import errors
from rota.apiserver import stored_form
from rota.apiserver.http import negotiation, responses
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import Damaged
from rota.apiserver.registry import revisions
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.routing import Route
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import DEPRECATED, Call


async def express(request: Request, route: Route, registry: ObjectRegistry) -> responses.Response | None:
    """The response to a plain request that needs no further checks; None otherwise."""
    resource = route.resource
    if (
        route.verb != "get"
        or route.subresource
        or request.raw_query
        # these may come with a warning
        or resource.custom
        or resource.group_resource in DEPRECATED
        or (resource.group_resource, "") in registry.kinds.handlers
        or not negotiation.is_plain(request.headers.get(b"accept", b""), request.headers.get(b"user-agent", b""))
    ):
        return None
    entry = await registry.store.get(stored_form.key(resource, route.namespace, route.name))
    if entry is None:
        return None
    try:
        return responses.Response(200, stored_form.wire(entry.value, entry.revision, resource))
    except stored_form.NotStoredForm:
        raise Damaged(entry.key) from None


async def get(call: Call) -> responses.Whole:
    """The current object; a resourceVersion says how old the response may be, and this is always the newest."""
    wanted = revisions.parse(call.request.query.get("resourceVersion", ""))
    if wanted:
        await revisions.reach(call.registry.store, wanted, call.registry.clock)
    entry = await call.store.get(stored_form.key(call.resource, call.at.namespace, call.at.name))
    if entry is None:
        raise errors.not_found(call.resource.group_resource, call.at.name)
    try:
        return response_bodies.stored(call, entry.value, entry.revision)
    except stored_form.NotStoredForm:
        raise Damaged(entry.key) from None
