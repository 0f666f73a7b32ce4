"""The probability that machines of a pool are reclaimed soon, from recent interruptions. Pure: time is an argument.

A pool is machines of one type in one zone, because clouds reclaim capacity by type and zone. Machine-hours and
interruptions are counted with exponential decay, on top of a weak prior that holds without observations.
"""

import math
from dataclasses import dataclass, field
from typing import Final

_HOUR_S: Final = 3600.0
#: The prior: one interruption in two thousand machine-hours, a few percent per month and machine.
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
    """The observations of every pool. A risk is the probability that a machine is reclaimed within the horizon."""

    half_life_s: float = 12 * _HOUR_S
    horizon_s: float = _HOUR_S
    _pools: dict[str, _Pool] = field(default_factory=dict)

    def machines(self, pool: str, count: int, *, now: float) -> None:
        """The number of machines of a pool from now on."""
        self._advanced(pool, now).machines = count

    def interrupted(self, pool: str, *, now: float) -> None:
        """One machine of a pool was reclaimed."""
        self._advanced(pool, now).interruptions += 1

    def risk(self, pool: str, *, now: float) -> float:
        """The probability that a machine of the pool is reclaimed within the horizon."""
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
        # hours decay while they pass, so that the result does not depend on the number of updates
        passed = self.half_life_s / math.log(2) * (1 - kept) / _HOUR_S
        known.hours = known.hours * kept + known.machines * passed
        known.interruptions *= kept
        known.at = max(known.at, now)
        return known
