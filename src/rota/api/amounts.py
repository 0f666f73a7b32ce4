"""Amounts of resources as people read them: `7.8Gi` for bytes, `250m` or `2` for cores."""

import math
from fractions import Fraction
from typing import Final

_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")
_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def human_bytes(amount: float, *, round_up: bool = False) -> str:
    """Bytes with three digits that say something, rounded to the nearest or up."""
    if abs(amount) < 1024:
        return f"{amount:.0f}"
    power = next((power for power in range(1, len(_UNITS)) if abs(amount) / 1024**power < 999.5), len(_UNITS))
    value = Fraction(amount) / 1024**power  # exact: a float has no room for one byte beside many pebibytes
    digits = 0 if abs(value) >= 99.95 or value == round(value) else 1 if abs(value) >= 9.995 else 2
    if round_up:
        value = Fraction(math.ceil(value * 10**digits), 10**digits)
    shown = f"{float(value):.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{_UNITS[power - 1]}"


def human_cpu(milli: int) -> str:
    """Thousandths of cores: whole cores where they are."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def human(resource: str, amount: int) -> str:
    """An amount of a resource; CPU in thousandths, everything else in whole units."""
    if resource == "cpu":
        return human_cpu(amount)
    return human_bytes(amount) if resource.startswith(_BYTES) else str(amount)


def at_least(resource: str, amount: int) -> str:
    """An amount that is needed: never less than `amount`, as `human` may show it."""
    return human_bytes(amount, round_up=True) if resource.startswith(_BYTES) else human(resource, amount)
