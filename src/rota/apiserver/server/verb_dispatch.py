"""Dispatches a routed request to its verb."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from rota.api.kinds import ResourceType, Subresource
from rota.apiserver.http import responses
from rota.apiserver.interfaces import Kinds
from rota.apiserver.verbs import (
    create,
    create_many,
    delete,
    get,
    list_objects,
    patch,
    status_batches,
    subresource,
    update,
    watch,
)
from rota.apiserver.verbs.calls import DEPRECATED, Call
from rota.kit import offload

_Verb: TypeAlias = Callable[[Call], Awaitable[responses.Answer | responses.Deferred]]

_VERBS: Final[Mapping[str, _Verb]] = {
    "get": get.get,
    "list": list_objects.list_objects,
    "watch": watch.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}


async def answer(call: Call) -> responses.Answer:
    """The response to a request for a resource."""
    found = await _answer(call)
    if isinstance(found, responses.Deferred):
        return await offload.run(found.make, offload.ALWAYS)
    return found


async def _answer(call: Call) -> responses.Answer | responses.Deferred:
    route, kinds = call.route, call.registry.kinds
    deprecated = DEPRECATED.get(route.resource.group_resource)
    if deprecated is not None:
        call.at.warn(deprecated)
    handler = kinds.handlers.get((route.resource.group_resource, route.subresource))
    if handler is not None:
        return await subresource.handle(call, handler)
    if route.resource.group_resource == status_batches.BATCHES.group_resource:
        return await status_batches.create(call)
    if not route.subresource:
        if "get" not in route.resource.verbs:
            raise subresource.refuse(call)
        if route.verb == "create" and call.request.flag("batch"):
            return await create_many.create_many(call)
        return await _VERBS[route.verb](call)
    part = route.resource.subresources[route.subresource]
    if not is_served(kinds, route.resource, part):
        raise subresource.refuse(call)
    if route.subresource in kinds.projections and route.verb == "get":
        return await subresource.get_projection(call)
    return await _VERBS[route.verb](call)


def is_served(kinds: Kinds, resource: ResourceType, part: Subresource) -> bool:
    """Whether a subresource of the scheme is served: by its own handler, as a projection, or as part of its object."""
    if part.name in kinds.projections or (resource.group_resource, part.name) in kinds.handlers:
        return True
    same_kind = part.kind == resource.gvk and (part.model is not None or resource.custom)
    return same_kind and "update" in part.verbs
