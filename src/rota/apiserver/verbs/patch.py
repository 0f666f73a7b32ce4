"""PATCH of an object or of a subresource that is a part of one, in all four patch types.

The patched object is validated and stored like an updated one. After a conflict a patch is applied again to the new
state, so it only fails for a resourceVersion that the client itself put in.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors, fields
from rota.api.identifiers import GroupKind
from rota.api.patches import errors as patch_errors
from rota.api.patches import json_patch, merge, schemas, strategic
from rota.apiserver import bodies
from rota.apiserver.http import responses
from rota.apiserver.interfaces import Object
from rota.apiserver.registry import managed_fields
from rota.apiserver.registry.objects import Edit
from rota.apiserver.verbs import update
from rota.apiserver.verbs.calls import Call, wrong_options
from rota.kit import offload

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_OPTIONS: Final = GroupKind("meta.k8s.io", "PatchOptions")
_REJECTED: Final = "the server rejected our request due to an error in our request"
_Apply: TypeAlias = Callable[[Object, Any, schemas.TypeSchema], Any]

_MERGES: Final[Mapping[str, _Apply]] = {
    JSON_PATCH: lambda live, patch, _: json_patch.apply(live, patch),
    MERGE_PATCH: lambda live, patch, _: merge.apply(live, patch),
    STRATEGIC_PATCH: strategic.apply,
}


@dataclass(frozen=True, slots=True)
class _Patch:
    """A parsed patch."""

    call: Call
    media_type: str
    parsed: bodies.Parsed
    strictness: bodies.Strictness
    force: bool
    #: The work of the body; see `Call.weight`.
    weight: int

    def merged(self, live: Object) -> Object:
        """The patched object, in the shape of its kind."""
        gvk = self.call.body_kind[0]
        schema = schemas.for_kind(gvk.api_version, gvk.kind) or schemas.DEDUCED
        with_patch = _MERGES[self.media_type](live, self.parsed.value, schema)
        if not isinstance(with_patch, dict):
            raise patch_errors.MalformedPatch("the patched object is not an object")
        try:
            return self._placed(bodies.Parsed(with_patch, self.parsed.duplicates))
        except bodies.Misshapen as error:
            # the patch is wrong, not an object that was sent
            shown = msgspec.json.encode(self.parsed.value).decode()
            wrong = fields.invalid(fields.Path("patch"), shown, error.why)
            raise errors.invalid(GroupKind("", ""), "", [wrong]) from None

    def applied(self, live: Object | None) -> Object:
        """The result of server-side apply on the live object."""
        call = self.call
        config = self.parsed.value
        if not isinstance(config, dict):
            raise patch_errors.MalformedPatch("the applied configuration is not an object")
        config = self._configured(config, live)
        result = managed_fields.applied(live, config, call.at, call.registry.versions(call.at), force=self.force)
        return self._placed(bodies.Parsed(result, self.parsed.duplicates))

    def _configured(self, config: Object, live: Object | None) -> Object:
        """The configuration with the path's name and namespace; fields that it must not have are refused."""
        call = self.call
        if not config.get("apiVersion") or not config.get("kind"):
            raise errors.bad_request("invalid object type: apiVersion and kind must be set in an applied configuration")
        metadata = config.get("metadata")
        if not isinstance(metadata, dict | None):
            raise errors.bad_request(f"{self._untyped()}: .metadata: expected map")
        config = {**config, "metadata": {**(metadata or {})}}
        if live is not None:
            config["metadata"].setdefault("name", call.at.name)
        if call.at.namespace:
            config["metadata"].setdefault("namespace", call.at.namespace)
        call.place(config)
        unknown: list[str] = []
        try:
            shaped = call.shaped(bodies.Parsed(config), self.strictness, unknown=unknown)
        except bodies.Misshapen:
            if call.resource.custom:
                raise
            return config  # conflicts with other managers come first; errors of type show in the result
        if unknown and not call.resource.custom:
            wrong = [f".{path}: field not declared in schema" for path in unknown]
            listed = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
            raise errors.bad_request(f"{self._untyped()}: {listed}")
        # null and empty values are owned, too, though they are not stored
        return shaped if call.resource.custom else config

    def _untyped(self) -> str:
        """The beginning of an error about a configuration that does not have the shape of its kind."""
        gvk = self.call.body_kind[0]
        return f"failed to create typed patch object ({self.call.at.namespace}/{self.call.at.name}; {gvk})"

    def _placed(self, parsed: bodies.Parsed) -> Object:
        obj = self.call.shaped(parsed, self.strictness)
        self.call.place(obj)
        return obj


async def patch(call: Call) -> responses.Whole:
    """The patched object as stored."""
    request = call.request
    media_type = bodies.media_type(request.header(b"content-type"))
    projection = call.registry.kinds.projections.get(call.route.subresource)
    _check_options(call, media_type)
    strictness = bodies.strictness(request.query.get("fieldValidation", ""))
    body = await request.body()
    try:
        parse = bodies.parse_yaml if media_type == APPLY_PATCH else bodies.parse_json
        parsed = await offload.run(functools.partial(parse, body), call.weight(body))
    except bodies.Unreadable as error:
        if media_type != APPLY_PATCH:  # whether the object exists comes first
            await call.registry.read(call.resource, call.at.namespace, call.at.name)
        raise errors.bad_request(f"error decoding patch: {error}") from None
    what = _Patch(call, media_type, parsed, strictness, request.flag("force"), call.weight(body))
    with refusals(call):
        if projection is not None:
            return await update.update_projection(call, projection, what.merged, size_bytes=what.weight)
        return update.answer(call, await call.registry.update(call.at, _edit(what)))


def merging(call: Call, body: bytes) -> Edit:
    """A strategic merge patch as a function of the object, for use on many; call it within `refusals`."""
    strictness = bodies.strictness(call.request.query.get("fieldValidation", ""))
    try:
        parsed = bodies.parse_json(body)
    except bodies.Unreadable as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None
    return _edit(_Patch(call, STRATEGIC_PATCH, parsed, strictness, force=False, weight=len(body)))


@contextlib.contextmanager
def refusals(call: Call) -> Iterator[None]:
    """Errors of a patch as responses."""
    try:
        yield
    except patch_errors.PatchError as error:
        raise _refusal(call, error) from None


def _edit(what: _Patch) -> Edit:
    if what.media_type == APPLY_PATCH:
        creates = not what.call.route.subresource
        return Edit(make=what.applied, keeps_managed_fields=True, creates=creates, size_bytes=what.weight)

    def make(live: Object | None) -> Object:
        assert live is not None, "only an apply patch creates"
        return what.merged(live)

    return Edit(make=make, size_bytes=what.weight)


def _check_options(call: Call, media_type: str) -> None:
    query = call.request.query
    offered = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if call.resource.custom and call.route.subresource != "scale":
        offered.remove(STRATEGIC_PATCH)
    if call.route.subresource in call.registry.kinds.projections:
        offered.remove(APPLY_PATCH)
    if media_type not in offered:
        raise errors.unsupported_media_type(offered)
    wrong: list[fields.FieldError] = []
    if media_type == APPLY_PATCH:
        if not query.get("fieldManager"):
            wrong.append(fields.required(fields.Path("fieldManager"), "is required for apply patch"))
    elif "force" in query:
        wrong.append(fields.forbidden(fields.Path("force"), "may not be specified for non-apply patch"))
    wrong += wrong_options(query, with_body=True)
    if wrong:
        raise errors.invalid(_OPTIONS, "", wrong)


def _refusal(call: Call, error: patch_errors.PatchError) -> errors.ApiError:
    match error:
        case patch_errors.ApplyConflict():
            causes = [errors.Cause(type=one.REASON, message=one.message, field=one.field) for one in error.conflicts]
            return errors.apply_conflict(error.message, causes)
        case patch_errors.PatchTooLarge():
            return errors.request_entity_too_large(error.message)
        case patch_errors.InapplicablePatch():
            return errors.Invalid(_REJECTED, details=errors.Details())
        case _:
            return errors.bad_request(error.message)
