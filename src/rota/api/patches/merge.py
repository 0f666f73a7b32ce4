"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else is replaced.

`diff` writes the smallest such patch between two documents. It cannot set a null, since null means "delete": a null
in `after` is treated as an absent field.
"""

from __future__ import annotations

from rota.api.patches.errors import refuses_deep_nesting
from rota.api.patches.json_values import Json, JsonObject, copy, same


@refuses_deep_nesting
def apply(target: Json, patch: Json) -> Json:
    """The document that `patch` makes of `target`; neither is changed, and the result shares nothing with them."""
    return _merged(target, patch)


def _merged(target: Json, patch: Json) -> Json:
    if not isinstance(patch, dict):
        return copy(patch)
    base: JsonObject = target if isinstance(target, dict) else {}
    merged: JsonObject = {}
    for key, value in base.items():
        if key not in patch:
            merged[key] = copy(value)
        elif patch[key] is not None:
            merged[key] = _merged(value, patch[key])
    for key, change in patch.items():
        if key not in base and change is not None:
            merged[key] = _merged(None, change)
    return merged


@refuses_deep_nesting
def diff(before: JsonObject, after: JsonObject) -> JsonObject:
    """The merge patch that turns `before` into `after`."""
    return _difference(before, after)


def _difference(before: JsonObject, after: JsonObject) -> JsonObject:
    patch: JsonObject = {key: None for key in before if after.get(key) is None and before[key] is not None}
    for key, value in after.items():
        if value is None:
            continue
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if change := _difference(old, value):
                patch[key] = change
        elif not same(old, value):
            patch[key] = copy(value)
    return patch
