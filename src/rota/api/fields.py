"""Errors about one field of an object, with the path to it and upstream's words for it.

Validation collects these in lists; `errors.invalid` turns a list into the 422 answer with one cause each.
Mirrors `k8s.io/apimachinery/pkg/util/validation/field` (1.37).
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from rota.api import gotext


class Path(msgspec.Struct, frozen=True):
    """The way from an object's root to a field: `Path("spec").child("containers").index(0)`.

    A Struct, because validation creates dozens for each object, and a frozen dataclass takes three times as long.
    """

    text: str

    def child(self, *names: str) -> "Path":
        """A field of this field."""
        return Path(".".join((self.text, *names)) if self.text else ".".join(names))

    def index(self, position: int) -> "Path":
        """An item of this list."""
        return Path(f"{self.text}[{position}]")

    def key(self, key: str) -> "Path":
        """An entry of this map."""
        return Path(f"{self.text}[{key}]")

    def __str__(self) -> str:
        return self.text or "<nil>"


ROOT: Final = Path("")


class ErrorType(enum.Enum):
    """What is wrong, by its name on the wire; these are also the cause types of a `Status`."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_WORDS: Final = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.INTERNAL: "Internal error",
    ErrorType.TYPE_INVALID: "Invalid value",
}


class Literal(str):
    """A bad value that is shown as it is written here; for values whose Go type no Python type stands for."""

    __slots__ = ()


class _Omitted(enum.Enum):
    OMITTED = enum.auto()


_OMITTED: Final = _Omitted.OMITTED


@dataclass(frozen=True, slots=True)
class FieldError:
    """One complaint about one field."""

    type: ErrorType
    field: str
    detail: str = ""
    bad_value: object = _OMITTED

    def body(self) -> str:
        """The message without the path, which is what a cause of a `Status` holds."""
        text = _WORDS[self.type]
        if self.bad_value is not _OMITTED:
            text = f"{text}: {_shown(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def required(path: Path, detail: str = "") -> FieldError:
    """A value that must be there is missing or empty."""
    return FieldError(ErrorType.REQUIRED, str(path), detail)


def invalid(path: Path, value: object, detail: str) -> FieldError:
    """A value is malformed or out of bounds."""
    return FieldError(ErrorType.INVALID, str(path), detail, value)


def type_invalid(path: Path, value: object, detail: str) -> FieldError:
    """A value has another type than the schema says."""
    return FieldError(ErrorType.TYPE_INVALID, str(path), detail, value)


def not_supported(path: Path, value: object, supported: Iterable[str]) -> FieldError:
    """A value is none of an enumeration."""
    known = list(supported)
    detail = f"supported values: {gotext.quote_all(known)}" if known else ""
    return FieldError(ErrorType.NOT_SUPPORTED, str(path), detail, value)


def duplicate(path: Path, value: object) -> FieldError:
    """A value that must be unique occurs again."""
    return FieldError(ErrorType.DUPLICATE, str(path), "", value)


def not_found(path: Path, value: object) -> FieldError:
    """A value refers to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, str(path), "", value)


def forbidden(path: Path, detail: str) -> FieldError:
    """A value is well formed but not permitted here."""
    return FieldError(ErrorType.FORBIDDEN, str(path), detail)


def too_long(path: Path, limit: int) -> FieldError:
    """A string is too long; it is not repeated in the message."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(ErrorType.TOO_LONG, str(path), f"may not be more than {limit} {unit}")


def too_many(path: Path, count: int, limit: int) -> FieldError:
    """A list has too many items."""
    unit = "item" if limit == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, str(path), f"must have at most {limit} {unit}", count)


def internal(path: Path, detail: str) -> FieldError:
    """The value could not be checked for a reason that is not the user's."""
    return FieldError(ErrorType.INTERNAL, str(path), detail)


def aggregate(messages: Iterable[object]) -> str:
    """Several messages as one, repeated ones once: alone as it is, several in brackets."""
    unique = list(dict.fromkeys(str(message) for message in messages))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def _shown(value: object) -> str:
    if value is None:
        return '"null"'
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, bool | int | float):
        return gotext.plain(value)
    return gotext.literal(value)
