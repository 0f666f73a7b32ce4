"""The state of one evaluation."""

from collections.abc import Callable
from typing import Any, Final

from rota.api.cel.values import CostExceeded


class Frame:
    """Variables and the cost so far."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, slots: list[Any], limit: int) -> None:
        self.slots: Final = slots
        self.limit: Final = limit
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count cost; CostExceeded beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded


#: A part of an expression, ready to run.
Run = Callable[[Frame], Any]
