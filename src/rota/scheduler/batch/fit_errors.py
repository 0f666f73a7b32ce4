"""Why a pod found no node: the reasons with the number of nodes, and the nodes where evictions cannot help."""

from collections import Counter
from typing import Final

import numpy as np

from rota.columns.arrays import BoolArray


class FitErrors:
    """The refusals of all nodes for one pod."""

    __slots__ = ("_domain", "_nodes", "_reasons", "message", "unresolvable")

    def __init__(
        self,
        message: str = "",
        *,
        nodes: int = 0,
        reasons: Counter[str] | None = None,
        unresolvable: BoolArray | None = None,
    ) -> None:
        #: The reason if no node was evaluated.
        self.message: Final = message
        self._nodes: Final = nodes
        self._reasons: Final = reasons or Counter()
        #: By row, nodes where no eviction helps.
        self.unresolvable: Final = np.zeros(0, dtype=np.bool_) if unresolvable is None else unresolvable
        self._domain = ""

    def within(self, domain: str) -> "FitErrors":
        """Set the hypernode to which the search was limited."""
        self._domain = domain
        return self

    def __str__(self) -> str:
        text = self.message or f"0/{self._nodes} nodes are unavailable"
        if not self._nodes:
            return text
        listed = sorted(f"{number} {reason}" for reason, number in self._reasons.items())
        text = f"{text}: {', '.join(listed)}."
        return f"In hyperNode {self._domain}: {text}" if self._domain else text
