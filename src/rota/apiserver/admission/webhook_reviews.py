"""AdmissionReviews: the request to a webhook, and what its response says. Pure.

Versions `v1` and `v1beta1` are sent, the first that the webhook names. Messages are those of
`k8s.io/apiserver/pkg/admission/plugin/webhook` (1.36).
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors, gotext
from rota.api.errors import Cause, Details
from rota.apiserver.interfaces import Object

VERSIONS: Final = ("v1", "v1beta1")
KIND: Final = "AdmissionReview"
_GROUP: Final = "admission.k8s.io"
API_VERSIONS: Final = tuple(f"{_GROUP}/{one}" for one in VERSIONS)
_LEAST_REFUSAL_CODE: Final = 400

JsonPatch: TypeAlias = list[Any]


class InvalidResponse(ValueError):
    """The webhook's response is not a valid review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a webhook says."""

    allowed: bool
    patch: JsonPatch | None = None
    #: The Status of a refusal.
    status: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str]


def version(accepted: Sequence[str]) -> str:
    """The version of the review to send; ValueError if the webhook accepts none of them."""
    for one in accepted:
        if one in VERSIONS:
            return one
    raise ValueError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def review(which: str, uid: str, request: Mapping[str, Any], new: Object | None, old: Object | None) -> dict[str, Any]:
    """The body of a request to a webhook."""
    asked = {"uid": uid, **request, "object": new, "oldObject": old}
    return {"kind": KIND, "apiVersion": f"{_GROUP}/{which}", "request": asked}


def read(body: Any, which: str, uid: str, *, mutating: bool) -> Verdict:
    """The verdict in a decoded response; InvalidResponse if it is not for this review."""
    if not isinstance(body, Mapping):
        raise InvalidResponse("the response is not an object")
    response = body.get("response")
    if response is None:
        raise InvalidResponse("webhook response was absent")
    if not isinstance(response, Mapping):
        raise InvalidResponse("response is not an object")
    patch, kind = response.get("patch"), response.get("patchType")
    if which == "v1":
        if response.get("uid", "") != uid:
            said = gotext.quote(str(response.get("uid", "")))
            raise InvalidResponse(f"expected response.uid={gotext.quote(uid)}, got {said}")
        found = (str(body.get("apiVersion", "")), str(body.get("kind", "")))
        if found != (f"{_GROUP}/v1", KIND):
            raise InvalidResponse(f"expected webhook response of {_shown(f'{_GROUP}/v1', KIND)}, got {_shown(*found)}")
        _check_patch(patch, kind, mutating=mutating)
    status = response.get("status")
    annotations = response.get("auditAnnotations") or {}
    warnings = response.get("warnings") or ()
    if not isinstance(annotations, Mapping) or not isinstance(warnings, Sequence):
        raise InvalidResponse("auditAnnotations is not a map of strings, or warnings is not a list")
    return Verdict(
        allowed=response.get("allowed") is True,
        patch=_patch(patch, kind if which == "v1" else "JSONPatch") if mutating and patch else None,
        status=status if isinstance(status, Mapping) else None,
        warnings=tuple(map(str, warnings)),
        annotations={str(key): str(value) for key, value in annotations.items()},
    )


def _check_patch(patch: Any, kind: Any, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidResponse("validating webhook may not return response.patch")
        if kind is not None:
            raise InvalidResponse("validating webhook may not return response.patchType")
    elif patch and kind is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    elif not patch and kind is not None:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    elif patch and not kind:
        raise InvalidResponse('webhook returned invalid response.patchType of ""')


class UnreadablePatch(ValueError):
    """The patch of a response cannot be used."""


def _patch(patch: Any, kind: Any) -> JsonPatch:
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, TypeError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadablePatch(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise UnreadablePatch("received undecodable patch in webhook response: a JSON patch is a list of operations")
    if operations and kind != "JSONPatch":
        raise UnreadablePatch(f"unsupported patch type {gotext.quote(str(kind))}")
    return operations


def _shown(api_version: str, kind: str) -> str:
    """A kind with its version, as Go prints it."""
    group, _, name = api_version.rpartition("/")
    return f"{group}/{name}, Kind={kind}"


class Refused(errors.ApiError):
    """A webhook refused the request; code and reason are the webhook's."""

    def __init__(self, message: str, *, reason: str, code: int, details: Details | None) -> None:
        super().__init__(message, code=code, details=details)
        self.reason = reason


def refusal(webhook: str, status: Mapping[str, Any] | None) -> Refused:
    """The error for a request that a webhook refuses."""
    said = status or {}
    denied = f"admission webhook {gotext.quote(webhook)} denied the request"
    explanation = said.get("message") or said.get("reason")
    code = said.get("code")
    details = said.get("details")
    return Refused(
        f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        reason=str(said.get("reason") or ""),
        code=code if isinstance(code, int) and code >= _LEAST_REFUSAL_CODE else _LEAST_REFUSAL_CODE,
        details=_details(details) if isinstance(details, Mapping) else None,
    )


def _details(details: Mapping[str, Any]) -> Details:
    try:
        return msgspec.convert(details, Details)
    except msgspec.ValidationError:
        return Details(causes=(Cause(message=str(dict(details))),))
