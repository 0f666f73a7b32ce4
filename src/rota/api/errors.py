"""Errors of the API: one exception class per `reason` of a wire `Status`.

Raise what the lower-case functions make: they know upstream's message forms (`pods "x" not found`) and the
details. A `Status` from the wire becomes the same exception again with `from_wire`. The docstring of each class
is what it says when nothing better is known. Errors about single fields are in `fields`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

import msgspec

from rota.api import fields, gotext
from rota.api.identifiers import GroupKind, GroupResource

OBJECT_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
FIELD_MANAGER_CONFLICT: Final = "FieldManagerConflict"
RESOURCE_VERSION_TOO_LARGE: Final = "ResourceVersionTooLarge"
UNEXPECTED_SERVER_RESPONSE: Final = "UnexpectedServerResponse"
#: Of a long list with the same mistake in every item, only the first causes are reported.
_MOST_CAUSES: Final = 500


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the reasons behind a failure; `field` is a path such as `spec.containers[0].name`."""

    type: str = msgspec.field(name="reason", default="")
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a failure is about; `kind` holds the resource (plural) except in validation errors."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = msgspec.field(name="retryAfterSeconds", default=0)


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The wire form of a result; the key order is upstream's."""

    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: _Metadata | None = None
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None
    code: int = 0


class ApiError(Exception):
    """The request failed for a reason that the server did not name."""

    #: An error that repeats the words of a policy or webhook has the reason that was given there.
    reason: str = ""
    default_code: ClassVar[int] = 500

    def __init__(
        self,
        message: str = "",
        *,
        details: Details | None = None,
        code: int | None = None,
        continue_: str = "",
    ) -> None:
        self.message: Final = message or (type(self).__doc__ or "").strip()
        self.details: Final = details
        self.code: Final = self.default_code if code is None else code
        self.continue_: Final = continue_  # only with Expired: a token that goes on inconsistently
        super().__init__(self.message)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The single reasons, if any were given."""
        return self.details.causes if self.details else ()

    @property
    def retry_after_seconds(self) -> int | None:
        """How long a client should wait before it tries again, if the server said so."""
        return (self.details and self.details.retry_after_seconds) or None

    def has_cause(self, cause_type: str) -> bool:
        """Whether a cause of this type is among the causes."""
        return any(cause.type == cause_type for cause in self.causes)

    def status(self) -> Status:
        """The wire form as a value."""
        return Status(
            kind="Status",
            api_version="v1",
            metadata=_Metadata(continue_=self.continue_),
            status="Failure",
            message=self.message,
            reason=self.reason,
            details=self.details,
            code=self.code,
        )

    def to_wire(self) -> dict[str, Any]:
        """The wire form as plain JSON values."""
        wire: dict[str, Any] = msgspec.json.decode(self.encode())
        return wire

    def encode(self) -> bytes:
        """The wire form as bytes."""
        return msgspec.json.encode(self.status())


class BadRequest(ApiError):
    """The request is malformed; correct it before trying again."""

    reason = "BadRequest"
    default_code = 400


class Unauthorized(ApiError):
    """Unauthorized"""

    reason = "Unauthorized"
    default_code = 401


class Forbidden(ApiError):
    """The request is understood and refused; it needs other rights or other content."""

    reason = "Forbidden"
    default_code = 403


class NotFound(ApiError):
    """the server could not find the requested resource"""

    reason = "NotFound"
    default_code = 404


class MethodNotAllowed(ApiError):
    """the server does not allow this method on the requested resource"""

    reason = "MethodNotAllowed"
    default_code = 405


class NotAcceptable(ApiError):
    """the server was unable to respond with a content type that the client supports"""

    reason = "NotAcceptable"
    default_code = 406


class AlreadyExists(ApiError):
    """An object of that name exists; choose another name or update it."""

    reason = "AlreadyExists"
    default_code = 409


class Conflict(ApiError):
    """The object was changed in between; read it again and repeat the change."""

    reason = "Conflict"
    default_code = 409


class Gone(ApiError):
    """The item is gone for good; list again."""

    reason = "Gone"
    default_code = 410


class Expired(ApiError):
    """The requested revision is no longer kept; list again."""

    reason = "Expired"
    default_code = 410


class RequestEntityTooLarge(ApiError):
    """The request is too large; send less at once."""

    reason = "RequestEntityTooLarge"
    default_code = 413


class UnsupportedMediaType(ApiError):
    """The content type of the request is not supported here."""

    reason = "UnsupportedMediaType"
    default_code = 415


class Invalid(ApiError):
    """The object does not keep the rules of its kind; the causes name the fields."""

    reason = "Invalid"
    default_code = 422


class TooManyRequests(ApiError):
    """The server is busy; try again after the time it names."""

    reason = "TooManyRequests"
    default_code = 429


class InternalError(ApiError):
    """The server failed; its log says why."""

    reason = "InternalError"
    default_code = 500


class ServerTimeout(ApiError):
    """The operation could not be finished in time and had no effect; try again."""

    reason = "ServerTimeout"
    default_code = 500


class StoreReadError(ApiError):
    """The stored object cannot be read; it is damaged or was written by a newer version."""

    reason = "StoreReadError"
    default_code = 500


class ServiceUnavailable(ApiError):
    """The server cannot serve requests yet, or no longer; try again."""

    reason = "ServiceUnavailable"
    default_code = 503


class Timeout(ApiError):
    """The request took too long; it may still take effect."""

    reason = "Timeout"
    default_code = 504


_BY_REASON: Final[dict[str, type[ApiError]]] = {
    kind.reason: kind
    for kind in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists,
        Conflict, Gone, Expired, RequestEntityTooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError,
        ServerTimeout, StoreReadError, ServiceUnavailable, Timeout,
    )
}  # fmt: skip
#: For answers without a known reason; 409 and 410 are taken as the more common of their two reasons.
_BY_CODE: Final[dict[int, type[ApiError]]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 405: MethodNotAllowed,
    406: NotAcceptable, 409: Conflict, 410: Gone, 413: RequestEntityTooLarge, 415: UnsupportedMediaType, 422: Invalid,
    429: TooManyRequests, 500: InternalError, 503: ServiceUnavailable, 504: Timeout,
}  # fmt: skip


def not_found(resource: GroupResource, name: str) -> NotFound:
    """`pods "x" not found`."""
    return NotFound(f"{resource} {gotext.quote(name)} not found", details=_about(resource, name))


def already_exists(resource: GroupResource, name: str) -> AlreadyExists:
    """`pods "x" already exists`."""
    return AlreadyExists(f"{resource} {gotext.quote(name)} already exists", details=_about(resource, name))


def generate_name_conflict(resource: GroupResource, name: str, *, retry_after_seconds: int) -> AlreadyExists:
    """No free name was found for a `generateName`."""
    return AlreadyExists(
        f"{resource} {gotext.quote(name)} already exists, "
        "the server was not able to generate a unique name for the object",
        details=_about(resource, name, retry_after_seconds=retry_after_seconds),
    )


def conflict(resource: GroupResource, name: str, why: str = OBJECT_MODIFIED) -> Conflict:
    """`Operation cannot be fulfilled on pods "x": ...`; without `why`, a lost race for an update."""
    message = f"Operation cannot be fulfilled on {resource} {gotext.quote(name)}: {why}"
    return Conflict(message, details=_about(resource, name))


def apply_conflict(message: str, causes: Sequence[Cause]) -> Conflict:
    """Server-side apply would take fields from other managers; one cause for each field."""
    return Conflict(message, details=Details(causes=tuple(causes)))


def unauthorized(why: str = "Unauthorized") -> Unauthorized:
    """The client is not known."""
    return Unauthorized(why)


def forbidden(resource: GroupResource, name: str, why: str) -> Forbidden:
    """`pods "x" is forbidden: ...`; the name may be empty."""
    subject = f"{resource} {gotext.quote(name)}" if name else str(resource)
    message = f"{subject} is forbidden: {why}" if resource.resource else f"forbidden: {why}"
    return Forbidden(message, details=_about(resource, name))


def gone(message: str) -> Gone:
    """The item is gone and has no successor."""
    return Gone(message)


def expired(message: str, *, continue_: str = "") -> Expired:
    """A revision or a continue token is too old."""
    return Expired(message, continue_=continue_)


def invalid(kind: GroupKind, name: str, errors: Iterable[fields.FieldError]) -> Invalid:
    """`Pod "x" is invalid: spec.containers: Required value`, with one cause for each field error."""
    found = tuple(errors)
    listed, more = found[:_MOST_CAUSES], len(found) - _MOST_CAUSES
    message = f"{kind} {gotext.quote(name)} is invalid"
    causes = tuple(Cause(type=error.type.value, message=error.body(), field=error.field) for error in listed)
    details = Details(name=name, group=kind.group, kind=kind.kind, causes=causes)
    if listed:
        message = f"{message}: {fields.aggregate(listed)}"
    return Invalid(f"{message} and {more} more" if more > 0 else message, details=details)


def bad_request(why: str) -> BadRequest:
    """The request cannot be understood."""
    return BadRequest(why)


def too_many_requests(message: str, *, retry_after_seconds: int, causes: Sequence[Cause] = ()) -> TooManyRequests:
    """The server is busy, or a disruption budget says not now."""
    details = Details(retry_after_seconds=retry_after_seconds, causes=tuple(causes))
    return TooManyRequests(message, details=details)


def service_unavailable(why: str) -> ServiceUnavailable:
    """The service behind the request is not there."""
    return ServiceUnavailable(why)


def method_not_allowed(resource: GroupResource, action: str) -> MethodNotAllowed:
    """`delete is not supported on resources of kind "bindings"`."""
    message = f"{action} is not supported on resources of kind {gotext.quote(str(resource))}"
    return MethodNotAllowed(message, details=_about(resource, ""))


def not_acceptable(accepted: Sequence[str]) -> NotAcceptable:
    """None of the media types that the client accepts can be produced."""
    return NotAcceptable(f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Sequence[str]) -> UnsupportedMediaType:
    """The body is in a format that is not understood here."""
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )


def request_entity_too_large(why: str) -> RequestEntityTooLarge:
    """The body exceeds a limit."""
    return RequestEntityTooLarge(f"Request entity too large: {why}")


def server_timeout(resource: GroupResource, operation: str, *, retry_after_seconds: int) -> ServerTimeout:
    """A passing fault: the client should repeat the request."""
    message = f"The {operation} operation against {resource} could not be completed at this time, please try again."
    details = _about(resource, operation, retry_after_seconds=retry_after_seconds)
    return ServerTimeout(message, details=details)


def timeout(why: str, *, retry_after_seconds: int = 0) -> Timeout:
    """The request was given up; its effect is unknown."""
    return Timeout(f"Timeout: {why}", details=Details(retry_after_seconds=retry_after_seconds))


def resource_version_too_large(asked: int, latest: int) -> Timeout:
    """The client knows a later revision than this server; it should try again in a moment."""
    message = "Too large resource version"
    cause = Cause(type=RESOURCE_VERSION_TOO_LARGE, message=message)
    details = Details(causes=(cause,), retry_after_seconds=1)
    return Timeout(f"Timeout: {message}: {asked}, current: {latest}", details=details)


def internal_error(why: str) -> InternalError:
    """Something that should not happen; the message must not hold secrets."""
    return InternalError(f"Internal error occurred: {why}", details=Details(causes=(Cause(message=why),)))


def store_read_error(resource: GroupResource, name: str, why: str) -> StoreReadError:
    """A stored object cannot be decoded."""
    return StoreReadError(f"{resource} {gotext.quote(name)}: {why}", details=_about(resource, name))


def from_wire(body: bytes | str | dict[str, Any], *, code: int = 0) -> ApiError:
    """The exception that a failure answer stands for; `code` is the HTTP status where one is known.

    An answer that is no `Status` (a proxy's error page) becomes the class of its code; the body is its cause.
    """
    encoded = msgspec.json.encode(body) if isinstance(body, dict) else body
    try:
        status = msgspec.json.decode(encoded, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status()
    if status.kind != "Status":
        return _unexpected(encoded, code)
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code or code, ApiError)
    continue_ = status.metadata.continue_ if status.metadata else ""
    return kind(status.message, details=status.details, code=status.code or code, continue_=continue_)


def _unexpected(body: bytes | str, code: int) -> ApiError:
    text = (body.decode(errors="replace") if isinstance(body, bytes) else body).strip() or "unknown"
    kind = _BY_CODE.get(code, InternalError if code >= 500 else ApiError)
    details = Details(causes=(Cause(type=UNEXPECTED_SERVER_RESPONSE, message=text[:2048]),))
    message = f"the server responded with the status code {code} but did not return more information"
    return kind("" if code in _BY_CODE else message, details=details, code=code or None)


def _about(resource: GroupResource, name: str, *, retry_after_seconds: int = 0) -> Details:
    return Details(name=name, group=resource.group, kind=resource.resource, retry_after_seconds=retry_after_seconds)
