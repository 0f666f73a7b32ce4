"""How much cpu the batch pods of a node may use together. Pure.

The target is what others leave below a ceiling. A cut is immediate: a latency-sensitive pod needs the core now. A rise
waits until the last cut is some seconds ago, needs a gap above the deadband, and has a limited rate. So a constant load
gives a constant quota, a step of the load moves the quota in one direction only, and variation within the deadband
settles at its lowest target.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """Parts of the capacity, and times in seconds."""

    ceiling: float = 0.9
    deadband: float = 0.03
    #: The rise in one second.
    rate: float = 0.2
    #: No rise for this long after a cut.
    hold_s: float = 2.0
    #: Batch pods are never stopped altogether: a process that holds a lock must be able to release it.
    least: float = 0.01


class QuotaController:
    """The quota of the batch tier of one node, in any unit of cpu."""

    def __init__(self, capacity: float, settings: QuotaSettings) -> None:
        if capacity <= 0:
            raise ValueError("a quota needs a capacity above zero")
        self.capacity = capacity
        self.settings = settings
        self.quota = settings.least * capacity
        self._since_cut_s = settings.hold_s

    def target(self, others: float) -> float:
        """What others leave below the ceiling, at least the minimum."""
        settings = self.settings
        return max(settings.ceiling * self.capacity - max(others, 0.0), settings.least * self.capacity)

    def step(self, others: float, elapsed_s: float) -> float:
        """The quota after an interval in which others used this much."""
        settings, target = self.settings, self.target(others)
        self._since_cut_s += elapsed_s
        if target < self.quota:
            self.quota, self._since_cut_s = target, 0.0
        elif target > self.quota + settings.deadband * self.capacity and self._since_cut_s >= settings.hold_s:
            self.quota = min(target, self.quota + settings.rate * self.capacity * elapsed_s)
        return self.quota
