"""The order of a merged list in strategic merge patch.

Elements that the patch names follow the patch's order, the others the live list's; where the two meet, an element that
only the live list has goes in front of the patch's elements that it preceded. Elements are known by their merge key,
scalars by themselves (an empty key).
"""

from __future__ import annotations

from collections import deque

from rota.api.patches.errors import MalformedPatch
from rota.api.patches.json_values import Json, Token, shown, token, type_name


def key_value(item: Json, merge_key: str) -> Json:
    """What tells an element apart: the value of its key, or the scalar itself."""
    if not merge_key:
        return item
    if not isinstance(item, dict):
        raise MalformedPatch(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    if merge_key not in item:
        raise MalformedPatch(f"map: {shown(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _positions(items: list[Json], merge_key: str) -> dict[Token, int]:
    """Where each element first stands."""
    positions: dict[Token, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(token(key_value(item, merge_key)), position)
    return positions


def interleaved(merged: list[Json], *, patch_order: list[Json], live_order: list[Json], merge_key: str) -> list[Json]:
    """The merged elements in their final order."""
    wanted = _positions(patch_order, merge_key)
    live = _positions(live_order, merge_key)
    identified = [(token(key_value(item, merge_key)), item) for item in merged]
    named = sorted((pair for pair in identified if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = deque(
        sorted((pair for pair in identified if pair[0] not in wanted), key=lambda pair: live.get(pair[0], 0))
    )
    ordered: list[Json] = []
    for identity, item in named:
        place = live.get(identity)
        while others and place is not None and live.get(others[0][0], place) < place:
            ordered.append(others.popleft()[1])
        ordered.append(item)
    return ordered + [item for _, item in others]


def check(change: list[Json], order: list[Json], merge_key: str) -> None:
    """Refuse a patch list that contradicts the order that the same patch asks for."""
    if not change or not order:
        return
    expected = [item for item in change if not (isinstance(item, dict) and "$patch" in item)]
    remaining = iter(order)
    for item in expected:
        identity = token(key_value(item, merge_key))
        if not any(token(key_value(other, merge_key)) == identity for other in remaining):
            raise MalformedPatch(
                f"The order in patch list:\n{shown(change)}\n doesn't match $setElementOrder list:\n{shown(order)}\n"
            )
