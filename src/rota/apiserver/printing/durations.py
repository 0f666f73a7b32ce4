"""Ages in kubectl's format: `5m30s`, `3h`, `2d5h`; the older, the coarser.

Thresholds are those of `k8s.io/apimachinery/pkg/util/duration` (1.37): two units where the larger one alone would hide
too much, one unit elsewhere.
"""

from typing import Final

from rota.api import times

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

#: Below this many seconds: the larger unit with its size, and the smaller one if it is shown.
_STEPS: Final = (
    (2 * _MINUTE, ("s", 1), None),
    (10 * _MINUTE, ("m", _MINUTE), ("s", 1)),
    (3 * _HOUR, ("m", _MINUTE), None),
    (8 * _HOUR, ("h", _HOUR), ("m", _MINUTE)),
    (2 * _DAY, ("h", _HOUR), None),
    (8 * _DAY, ("d", _DAY), ("h", _HOUR)),
    (2 * _YEAR, ("d", _DAY), None),
    (8 * _YEAR, ("y", _YEAR), ("d", _DAY)),
)


def human(seconds: float) -> str:
    """A duration for people; clock differences below two seconds are ignored."""
    whole = int(seconds)
    if whole < 0:
        return INVALID if whole < -1 else "0s"
    for limit, (unit, size), smaller in _STEPS:
        if whole < limit:
            front = f"{whole // size}{unit}"
            if smaller is None:
                return front
            small_unit, small_size = smaller
            rest = whole % size // small_size
            return f"{front}{rest}{small_unit}" if rest else front
    return f"{whole // _YEAR}y"


def since(timestamp: str | None, now: float) -> str:
    """How long ago a `Time` or `MicroTime` was; `<unknown>` if there is none."""
    return human(now - times.parse(timestamp)) if timestamp else UNKNOWN
