"""Bursts of latency-sensitive containers that their cpu limit throttles. Pure.

Koordinator's rules: a throttled container gets 1.2 times its quota, at most three times its limit, while the machine
is less than half used. A container that is no longer throttled, and each one when the machine is more than half used,
goes back by 0.8 towards its limit.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSettings:
    """Koordinator's defaults."""

    up: float = 1.2
    down: float = 0.8
    most: float = 3.0
    #: The part of the machine in use from which on quotas do not rise, and from which on they fall.
    cooling: float = 0.45
    overload: float = 0.5


def quota(limit: float, present: float, *, throttled: bool, load: float, settings: BurstSettings) -> float:
    """The next quota of a container with this limit, between the limit and `most` times the limit."""
    present = min(max(present, limit), settings.most * limit)
    if load >= settings.overload or not throttled:
        return max(limit, settings.down * present)
    if load >= settings.cooling:
        return present
    return min(settings.most * limit, settings.up * present)
