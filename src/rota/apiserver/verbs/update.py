"""PUT of an object, or of a subresource that is a part of one."""

from collections.abc import Callable

from rota.api import errors
from rota.api.patches import json_values
from rota.apiserver.http import responses
from rota.apiserver.interfaces import Object, Projection
from rota.apiserver.registry import system_fields
from rota.apiserver.registry.objects import Edit, Written
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import Call


async def update(call: Call) -> responses.Whole:
    """The object as stored; 201 if it is new."""
    body = await call.request.body()
    obj = await call.object_from(body)
    call.place(obj)
    projection = call.registry.kinds.projections.get(call.route.subresource)
    if projection is not None:
        return await update_projection(call, projection, lambda _: obj, size_bytes=len(body))

    def make(_: Object | None) -> Object:
        return json_values.copy(obj)  # type: ignore[no-any-return]  # a copy of a dict is one

    edit = Edit(make=make, creates=system_fields.created_by_update(call.at), size_bytes=len(body))
    return answer(call, await call.registry.update(call.at, edit))


async def update_projection(
    call: Call, projection: Projection, change: Callable[[Object], Object], *, size_bytes: int
) -> responses.Whole:
    """Change the parent through a projection."""

    def make(live: Object | None) -> Object:
        assert live is not None, "a projection is never created"
        value = change(projection.project(live, call.resource))
        wrong = projection.validate(value)
        if wrong:
            raise errors.invalid(call.body_kind[0].group_kind, call.at.name, wrong)
        parent = projection.inject(json_values.copy(live), value, call.resource)
        for name in ("resourceVersion", "uid"):
            if value["metadata"].get(name):
                parent["metadata"][name] = value["metadata"][name]
        return parent

    written = await call.registry.update(call.at, Edit(make=make, size_bytes=size_bytes))
    return response_bodies.plain(call, projection.project(written.object, call.resource))


def answer(call: Call, written: Written) -> responses.Whole:
    """The written object as the response."""
    code = 201 if written.created else 200
    if call.at.dry_run:
        return response_bodies.plain(call, written.object, code=code)
    return response_bodies.stored(call, written.value, written.revision, code=code)
