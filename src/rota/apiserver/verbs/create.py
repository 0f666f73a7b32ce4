"""POST of a collection."""

from rota.apiserver import bodies, responses
from rota.apiserver.contract import Standing
from rota.apiserver.registry.castings import Mould
from rota.apiserver.registry.objects import Cast, Written
from rota.apiserver.verbs import rendering
from rota.apiserver.verbs.calls import Call


async def create(call: Call) -> responses.Whole:
    """The new object as it was stored."""
    at, registry = call.at, call.registry
    standing = registry.kinds.standing(at)
    if standing is None:
        return _answer(call, await work_out(call, await call.request.body()))
    body = await call.request.body()
    mould = registry.castings.mould(at, body, call.request.header(b"content-type"))
    if mould is None:
        return _answer(call, await work_out(call, body))
    cast = await registry.create_alike(at, mould, standing)
    return _answer(call, cast if cast is not None else await work_out(call, body, mould, standing))


async def work_out(call: Call, body: bytes, mould: Mould | None = None, standing: Standing | None = None) -> Written:
    """Store an object by all the rules; what is learned of it helps those that equal it but for their names."""
    obj = await call.object_from(body)
    call.place(obj)
    at, registry = call.at, call.registry
    written = await registry.create(at, obj, size_bytes=len(body))
    if not at.dry_run and mould is not None and standing is not None and _is_exemplary(call, standing):
        registry.castings.learn(mould, standing, written.value)
    return written


def _answer(call: Call, made: Written | Cast) -> responses.Whole:
    if call.at.dry_run and isinstance(made, Written):
        return rendering.plain(call, made.object, code=201)
    return rendering.stored(call, made.value, made.revision, code=201)


def _is_exemplary(call: Call, standing: Standing) -> bool:
    """Whether all was in order with an object, and rules stood still while it was let in."""
    strictness = bodies.strictness(call.request.query.get("fieldValidation", ""))
    looked_at = strictness is not bodies.Strictness.IGNORE and not call.at.warnings
    return looked_at and standing == call.registry.kinds.standing(call.at)
