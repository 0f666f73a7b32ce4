"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else is replaced.

`diff` writes the smallest such patch between two documents. It cannot set a null, since null means "delete": a null
in `after` is treated as an absent field.
"""

from __future__ import annotations

from rota.api.patches.json_values import Json, JsonObject, copy, same


def apply(target: Json, patch: Json) -> Json:
    """The document that `patch` makes of `target`; neither is changed, and the result shares nothing with them."""
    if not isinstance(patch, dict):
        return copy(patch)
    base: JsonObject = target if isinstance(target, dict) else {}
    merged: JsonObject = {}
    for key, value in base.items():
        if key not in patch:
            merged[key] = copy(value)
        elif patch[key] is not None:
            merged[key] = apply(value, patch[key])
    for key, change in patch.items():
        if key not in base and change is not None:
            merged[key] = apply(None, change)
    return merged


def diff(before: JsonObject, after: JsonObject) -> JsonObject:
    """The merge patch that turns `before` into `after`."""
    patch: JsonObject = {key: None for key in before if after.get(key) is None and before[key] is not None}
    for key, value in after.items():
        if value is None:
            continue
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if change := diff(old, value):
                patch[key] = change
        elif not same(old, value):
            patch[key] = copy(value)
    return patch
