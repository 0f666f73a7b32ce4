"""POST of a collection."""

from rota.apiserver import bodies, responses
from rota.apiserver.contract import Standing
from rota.apiserver.registry.castings import Mould
from rota.apiserver.verbs import rendering
from rota.apiserver.verbs.calls import Call


async def create(call: Call) -> responses.Response:
    """The new object as it was stored."""
    at, registry = call.at, call.registry
    standing = registry.kinds.standing(at)
    if standing is None:
        return await _work_out(call, await call.request.body())
    body = await call.request.body()
    mould = registry.castings.mould(at, body, call.request.header(b"content-type"))
    if mould is None:
        return await _work_out(call, body)
    cast = await registry.create_alike(at, mould, standing)
    if cast is not None:
        return rendering.stored(call, cast.value, cast.revision, code=201)
    return await _work_out(call, body, mould, standing)


async def _work_out(
    call: Call, body: bytes, mould: Mould | None = None, standing: Standing | None = None
) -> responses.Response:
    obj = call.object_in(body)
    call.place(obj)
    at, registry = call.at, call.registry
    written = await registry.create(at, obj)
    if at.dry_run:
        return rendering.plain(call, written.object, code=201)
    if mould is not None and standing is not None and _is_exemplary(call, standing):
        registry.castings.learn(mould, standing, written.value)
    return rendering.stored(call, written.value, written.revision, code=201)


def _is_exemplary(call: Call, standing: Standing) -> bool:
    """Whether all was in order with an object, and rules stood still while it was let in."""
    strictness = bodies.strictness(call.request.query.get("fieldValidation", ""))
    looked_at = strictness is not bodies.Strictness.IGNORE and not call.at.warnings
    return looked_at and standing == call.registry.kinds.standing(call.at)
