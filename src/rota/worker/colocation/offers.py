"""What a node sells to batch pods: what the forecast leaves below a ceiling. Pure.

An offer falls with the forecast at once, so it is never above what the forecast leaves. It rises only by more than a
part of the capacity and after a pause, so a forecast that moves up and down does not write the node each time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rota.api.reclaimed import SOLD

#: Offers are multiples of this part of the capacity.
_GRANULE: Final = 0.01
#: A pod counts by its request for this long: its use is not in the forecast yet.
YOUNG_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferSettings:
    """How much is sold, and how fast that may rise."""

    #: The part of the capacity that the forecast and what is sold may use together.
    ceiling: float = 0.9
    #: An offer rises by at least this part of the capacity, and this long after its last change.
    step: float = 0.05
    pause_s: float = 60.0


def left(capacity: float, peak: float, unmeasured: float, *, ceiling: float) -> int:
    """What the forecast leaves of a resource, rounded down to whole granules; nothing if the peak is unknown (NaN)."""
    amount = ceiling * capacity - peak - unmeasured
    granule = max(int(capacity * _GRANULE), 1)
    return int(amount // granule) * granule if amount > 0 else 0


def unmeasured(requests: Iterable[tuple[float, Mapping[str, int]]], now_s: float) -> dict[str, int]:
    """The requests of pods that began less than `YOUNG_S` ago, from pairs of begin and requests."""
    sums = dict.fromkeys(SOLD, 0)
    for begun_s, wanted in requests:
        if now_s - begun_s < YOUNG_S:
            for name in SOLD:
                sums[name] += wanted.get(name, 0)
    return sums


class Offers:
    """The present offer of a node, by resource."""

    def __init__(self, settings: OfferSettings) -> None:
        self._settings = settings
        self._amounts = dict.fromkeys(SOLD, 0)
        self._changed_s = dict.fromkeys(SOLD, float("-inf"))

    def update(self, name: str, capacity: float, left: int, now_s: float) -> None:
        """Take what the forecast leaves of a resource now."""
        now, settings = self._amounts[name], self._settings
        rises = left >= now + settings.step * capacity and now_s - self._changed_s[name] >= settings.pause_s
        if left < now or rises:
            self._amounts[name] = left
            self._changed_s[name] = now_s

    def amounts(self) -> dict[str, int]:
        """What the node declares, by the names of the batch class."""
        return {SOLD[name]: amount for name, amount in self._amounts.items()}
