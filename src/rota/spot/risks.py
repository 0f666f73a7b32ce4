"""How likely machines of a pool are taken away soon, from how often that happened lately.

A pool is machines of one type in one zone: clouds take back what others pay for, and that is sold by type and place.
Counted are machine-hours and interruptions, both forgotten by half in a while, on top of a small belief that holds
where nothing was seen. Pure: whoever watches nodes tells the time.
"""

import math
from dataclasses import dataclass, field
from typing import Final

_HOUR_S: Final = 3600.0
#: Seen before anything is: one interruption in two thousand machine-hours, a few percent a month and machine.
_BELIEVED_INTERRUPTIONS: Final = 0.05
_BELIEVED_HOURS: Final = 100.0


@dataclass(slots=True)
class _Pool:
    machines: int = 0
    hours: float = 0.0
    interruptions: float = 0.0
    at: float = 0.0


@dataclass(slots=True, kw_only=True)
class Risks:
    """What was seen of every pool. A risk is the probability that a machine goes within the horizon."""

    half_life_s: float = 12 * _HOUR_S
    horizon_s: float = _HOUR_S
    _pools: dict[str, _Pool] = field(default_factory=dict)

    def machines(self, pool: str, count: int, *, now: float) -> None:
        """So many machines of a pool are there from now on."""
        self._advanced(pool, now).machines = count

    def interrupted(self, pool: str, *, now: float) -> None:
        """One machine of a pool is taken away."""
        self._advanced(pool, now).interruptions += 1

    def risk(self, pool: str, *, now: float) -> float:
        """The probability that a machine of the pool goes within the horizon."""
        seen = self._advanced(pool, now) if pool in self._pools else _Pool()
        hours = (seen.hours + _BELIEVED_HOURS) * _HOUR_S
        rate = (seen.interruptions + _BELIEVED_INTERRUPTIONS) / hours
        return 1 - math.exp(-rate * self.horizon_s)

    def _advanced(self, pool: str, now: float) -> _Pool:
        known = self._pools.get(pool)
        if known is None:
            known = self._pools[pool] = _Pool(at=now)
        elapsed = max(0.0, now - known.at)
        kept = 0.5 ** (elapsed / self.half_life_s)
        # hours are forgotten while they pass, so that it does not matter how often somebody looks
        passed = self.half_life_s / math.log(2) * (1 - kept) / _HOUR_S
        known.hours = known.hours * kept + known.machines * passed
        known.interruptions *= kept
        known.at = max(known.at, now)
        return known
