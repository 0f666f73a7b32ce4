"""POST of a collection."""

from rota.apiserver import bodies
from rota.apiserver.http import responses
from rota.apiserver.interfaces import AdmissionFingerprint
from rota.apiserver.registry.create_templates import CreateTemplate
from rota.apiserver.registry.objects import Written, WrittenBytes
from rota.apiserver.verbs import response_bodies
from rota.apiserver.verbs.calls import Call


async def create(call: Call) -> responses.Whole:
    """The new object as stored."""
    at, registry = call.at, call.registry
    admission_fingerprint = registry.kinds.admission_fingerprint(at)
    if admission_fingerprint is None:
        return _answer(call, await work_out(call, await call.request.body()))
    body = await call.request.body()
    create_template = registry.create_templates.create_template(at, body, call.request.header(b"content-type"))
    if create_template is None:
        return _answer(call, await work_out(call, body))
    filled = await registry.create_alike(at, create_template, admission_fingerprint)
    return _answer(
        call, filled if filled is not None else await work_out(call, body, create_template, admission_fingerprint)
    )


async def work_out(
    call: Call,
    body: bytes,
    create_template: CreateTemplate | None = None,
    admission_fingerprint: AdmissionFingerprint | None = None,
) -> Written:
    """Store an object by the usual path; a template is learned from it for objects that differ in their names only."""
    obj = await call.object_from(body)
    call.place(obj)
    at, registry = call.at, call.registry
    written = await registry.create(at, obj, size_bytes=len(body))
    if (
        not at.dry_run
        and create_template is not None
        and admission_fingerprint is not None
        and _is_exemplary(call, admission_fingerprint)
    ):
        registry.create_templates.learn(create_template, admission_fingerprint, written.value)
    return written


def _answer(call: Call, made: Written | WrittenBytes) -> responses.Whole:
    if call.at.dry_run and isinstance(made, Written):
        return response_bodies.plain(call, made.object, code=201)
    return response_bodies.stored(call, made.value, made.revision, code=201)


def _is_exemplary(call: Call, admission_fingerprint: AdmissionFingerprint) -> bool:
    """Whether an object had no warnings, and the fingerprint did not change while it was admitted."""
    strictness = bodies.strictness(call.request.query.get("fieldValidation", ""))
    looked_at = strictness is not bodies.Strictness.IGNORE and not call.at.warnings
    return looked_at and admission_fingerprint == call.registry.kinds.admission_fingerprint(call.at)
