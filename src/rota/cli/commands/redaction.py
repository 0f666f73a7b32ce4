"""Removes what may be secret from objects, and keeps their form. Pure."""

from collections.abc import Mapping
from typing import Any, Final

REMOVED: Final = "<removed>"

#: Fields whose strings are removed, wherever they stand; users put passwords there.
_FREE_TEXT: Final = frozenset({"command", "args", "data", "stringData", "binaryData", "caBundle", "userData"})
#: Parts of field names that speak of credentials.
_SUSPECT: Final = ("password", "passwd", "token", "secretkey", "privatekey", "credential", "apikey")
#: Annotations that repeat a whole manifest.
_REPEATING: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def redacted(value: Any, *, name: str = "") -> Any:
    """The value without what may be secret; `name` is the field that holds it."""
    if name in _FREE_TEXT or _is_suspect(name):
        return _emptied(value)
    if isinstance(value, Mapping):
        if name == "annotations":
            return {key: REMOVED if key in _REPEATING or _is_suspect(key) else one for key, one in value.items()}
        if name == "env":
            return _emptied(value)
        return {key: redacted(one, name=key) for key, one in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [_variable(one) if name == "env" else redacted(one) for one in value]
    return value


def _variable(variable: Any) -> Any:
    """An environment variable keeps its name and where its value comes from."""
    if not isinstance(variable, Mapping):
        return REMOVED
    return {key: REMOVED if key == "value" else one for key, one in variable.items()}


def _emptied(value: Any) -> Any:
    """The same form with every string and number removed."""
    if isinstance(value, Mapping):
        return {key: _emptied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [REMOVED] if value else []
    return value if value is None or isinstance(value, bool) else REMOVED


def _is_suspect(name: str) -> bool:
    plain = name.lower().replace("-", "").replace("_", "")
    return any(part in plain for part in _SUSPECT) and plain not in {"automountserviceaccounttoken", "tokenaudiences"}
