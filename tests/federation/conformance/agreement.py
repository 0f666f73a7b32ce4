"""How a decision is compared with what was recorded: null members and empty maps do not count, nor do error texts."""

import json
from typing import Any

import yaml

from rota.api import quantities


def pruned(value: Any) -> Any:
    """Without null members and empty maps, at every depth."""
    if isinstance(value, dict):
        kept = {key: pruned(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None and one != {}}
    if isinstance(value, list | tuple):
        return [pruned(one) for one in value]
    return value


def differences(got: Any, expected: Any, path: str = "") -> list[str]:
    """Where two pruned values differ."""
    if isinstance(got, dict) and isinstance(expected, dict):
        found = []
        for key in sorted({*got, *expected}):
            below = f"{path}.{key}"
            if key in ("error", "syncError") and _is_error_text(got.get(key)) and _is_error_text(expected.get(key)):
                continue
            if _is_status(path) and (got.get(key) or 0) == (expected.get(key) or 0):
                continue
            if key not in got or key not in expected:
                found.append(f"{below}: {_shown(got.get(key))} instead of {_shown(expected.get(key))}")
            else:
                found += differences(got[key], expected[key], below)
        return found
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        return [
            one
            for place, (mine, theirs) in enumerate(zip(got, expected, strict=True))
            for one in differences(mine, theirs, f"{path}[{place}]")
        ]
    if got == expected and isinstance(got, bool) is isinstance(expected, bool):
        return []
    if (
        isinstance(got, str)
        and isinstance(expected, str)
        and (_same_quantity(got, expected) or _same_text(got, expected))
    ):
        return []
    return [f"{path}: {_shown(got)} instead of {_shown(expected)}"]


def _shown(value: Any) -> str:
    return json.dumps(value)[:300]


def _is_error_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_status(path: str) -> bool:
    return path.endswith(".status")


def _same_quantity(left: str, right: str) -> bool:
    try:
        return quantities.parse(left) == quantities.parse(right)
    except quantities.QuantityError:
        return False


def _same_text(left: str, right: str) -> bool:
    """Whether two texts hold the same JSON or YAML object or list."""
    try:
        mine, theirs = yaml.safe_load(left), yaml.safe_load(right)
    except yaml.YAMLError:
        return False
    return isinstance(mine, dict | list) and mine == theirs
