"""POST of a collection."""

from rota.apiserver import responses
from rota.apiserver.verbs import rendering
from rota.apiserver.verbs.calls import Call


async def create(call: Call) -> responses.Response:
    """The new object as it was stored."""
    obj = await call.object_body()
    call.place(obj)
    written = await call.registry.create(call.at, obj)
    if call.at.dry_run:
        return rendering.plain(call, written.object, code=201)
    return rendering.stored(call, written.value, written.revision, code=201)
