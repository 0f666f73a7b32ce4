"""Which function answers a routed request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from rota.apiserver import responses
from rota.apiserver.verbs import create, delete, get, listing, patch, subresource, update, watch
from rota.apiserver.verbs.calls import Call

_Verb: TypeAlias = Callable[[Call], Awaitable[responses.Answer]]

_VERBS: Final[Mapping[str, _Verb]] = {
    "get": get.get,
    "list": listing.list_objects,
    "watch": watch.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}


async def answer(call: Call) -> responses.Answer:
    """The answer to a request for a resource."""
    route, kinds = call.route, call.registry.kinds
    handler = kinds.handlers.get((route.resource.group_resource, route.subresource))
    if handler is not None:
        return await subresource.handle(call, handler)
    if not route.subresource:
        if "get" not in route.resource.verbs:
            raise subresource.refuse(call)
        return await _VERBS[route.verb](call)
    if route.subresource in kinds.projections:
        if route.verb == "get":
            return await subresource.get_projection(call)
    elif not _is_part(call):
        raise subresource.refuse(call)
    return await _VERBS[route.verb](call)


def _is_part(call: Call) -> bool:
    """Whether a subresource is the object itself, seen through a door of its own."""
    part = call.resource.subresources[call.route.subresource]
    same_kind = part.kind == call.resource.gvk and (part.model is not None or call.resource.custom)
    return same_kind and "update" in part.verbs
