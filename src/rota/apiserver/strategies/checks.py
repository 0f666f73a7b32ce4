"""Checks of single values that many kinds share, with upstream's messages. Each returns the errors."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import fields, names, quantities, selectors
from rota.apiserver.strategies.metadata import FIELD_IMMUTABLE

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
NOT_ZERO: Final = "must be greater than 0"
MAX_INT32: Final = 2**31 - 1
_PORT_CHARACTERS: Final = re.compile(r"[a-z0-9-]+")
_LETTER: Final = re.compile(r"[a-z]")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_SELECTOR_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@functools.lru_cache(maxsize=8192)
def quantity(value: str | int | float | None) -> quantities.Quantity:  # noqa: PYI041 - JSON numbers arrive as either
    """Parse a quantity of a decoded object; cached, since clusters have few different ones."""
    return quantities.from_wire(value)


def not_negative(value: int | None, path: fields.Path) -> list[fields.FieldError]:
    """Zero, positive, or absent."""
    return [fields.invalid(path, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def positive(value: int | None, path: fields.Path) -> list[fields.FieldError]:
    """Positive; absent is zero."""
    return [] if value is not None and value > 0 else [fields.invalid(path, value or 0, NOT_ZERO)]


def immutable(new: object, old: object, path: fields.Path) -> list[fields.FieldError]:
    """An immutable field."""
    return [] if new == old else [fields.invalid(path, shown(new), FIELD_IMMUTABLE)]


def shown(value: object) -> object:
    """A value as messages show it; None is null in Go."""
    return fields.Literal("null") if value is None else value


def in_range(value: int, lowest: int, highest: int, path: fields.Path) -> list[fields.FieldError]:
    """A number between two others, both included."""
    if lowest <= value <= highest:
        return []
    return [fields.invalid(path, value, f"must be between {lowest} and {highest}, inclusive")]


def one_of(value: str | None, supported: Sequence[str], path: fields.Path) -> list[fields.FieldError]:
    """A value of an enumeration that must be given."""
    if not value:
        return [fields.required(path)]
    return [] if value in supported else [fields.not_supported(path, value, supported)]


def messages(found: Iterable[str], value: object, path: fields.Path) -> list[fields.FieldError]:
    """Errors of `rota.api.names` about a value."""
    return [fields.invalid(path, value, message) for message in found]


def dns_label(value: str, path: fields.Path) -> list[fields.FieldError]:
    """One part of a host name."""
    return messages(names.check_dns1123_label(value), value, path)


def domain_prefixed_path(value: str, path: fields.Path) -> list[fields.FieldError]:
    """A path prefixed by a domain."""
    if not value:
        return [fields.required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [fields.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = messages(names.check_dns1123_subdomain(host), host, path)
    if not _HTTP_PATH.fullmatch(rest):
        found.append(fields.invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"))
    return found


def label_key(value: str, path: fields.Path) -> list[fields.FieldError]:
    """A qualified name."""
    return messages(names.check_label_key(value), value, path)


def port_number(value: int, path: fields.Path) -> list[fields.FieldError]:
    """A port of a transport protocol."""
    return in_range(value, 1, 65535, path)


def port_name(value: str, path: fields.Path) -> list[fields.FieldError]:
    """The name of a port, as of a registered service."""
    found = []
    if len(value) > 15:
        found.append("must be no more than 15 characters")
    if not _PORT_CHARACTERS.fullmatch(value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return messages(found, value, path)


def port(value: int | str | None, path: fields.Path) -> list[fields.FieldError]:
    """A port by number or by name."""
    return port_name(value, path) if isinstance(value, str) else port_number(value or 0, path)


def label_selector(selector: Mapping[str, Any] | None, path: fields.Path) -> list[fields.FieldError]:
    """A selector object."""
    found: list[fields.FieldError] = []
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        found += label_key(key, path.child("matchLabels"))
        found += messages(names.check_label_value(value), value, path.child("matchLabels"))
    for position, one in enumerate((selector or {}).get("matchExpressions") or ()):
        found += _requirement(one, path.child("matchExpressions").index(position))
    return found


def _requirement(one: Mapping[str, Any], path: fields.Path) -> list[fields.FieldError]:
    operator, values, found = one.get("operator", ""), one.get("values") or [], []
    if operator not in _SELECTOR_OPERATORS:
        found.append(fields.invalid(path.child("operator"), operator, "not a valid selector operator"))
    elif operator in {"In", "NotIn"} and not values:
        why = "must be specified when `operator` is 'In' or 'NotIn'"
        found.append(fields.required(path.child("values"), why))
    elif operator in {"Exists", "DoesNotExist"} and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        found.append(fields.forbidden(path.child("values"), why))
    found += label_key(one.get("key", ""), path.child("key"))
    for position, value in enumerate(values):
        found += messages(names.check_label_value(value), value, path.child("values").index(position))
    return found


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a selector matches labels; an invalid one matches nothing."""
    try:
        return selectors.from_object(selector).matches(labels)
    except (selectors.SelectorError, ValueError):
        return False
