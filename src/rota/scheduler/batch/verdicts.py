"""Filter results for all nodes: which are refused, why, and where evictions cannot help."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from rota.columns.arrays import BoolArray
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.framework.status import Code

#: Codes that rule a node out even for a pod that may evict others.
FINAL: Final = frozenset({Code.UNRESOLVABLE, Code.ERROR, Code.SKIP, Code.WAIT})


class Verdicts:
    """Refusals by row; a row may be refused for several reasons."""

    __slots__ = ("final", "reasons", "refused", "unresolvable")

    def __init__(self, size: int) -> None:
        self.refused: BoolArray = np.zeros(size, dtype=np.bool_)
        #: Refused, and no eviction on the node helps.
        self.final: BoolArray = np.zeros(size, dtype=np.bool_)
        #: Of those, the ones that are not looked at again for the pod.
        self.unresolvable: BoolArray = np.zeros(size, dtype=np.bool_)
        self.reasons: dict[str, BoolArray] = {}

    def refuse(self, rows: BoolArray, code: Code, reason: str) -> None:
        """Record a refusal of some rows."""
        self.refused |= rows
        if code in FINAL:
            self.final |= rows
            if code is Code.UNRESOLVABLE:
                self.unresolvable |= rows
        known = self.reasons.get(reason)
        self.reasons[reason] = rows if known is None else known | rows

    def absorb(self, other: "Verdicts", rows: BoolArray) -> None:
        """Take over what another says of some rows."""
        self.refused |= other.refused & rows
        self.final |= other.final & rows
        self.unresolvable |= other.unresolvable & rows
        for reason, mask in other.reasons.items():
            said = mask & rows
            if said.any():
                known = self.reasons.get(reason)
                self.reasons[reason] = said if known is None else known | said

    def errors(self, rows: BoolArray) -> FitErrors:
        """Sum the refusals up over the rows that were looked at."""
        reasons: Counter[str] = Counter()
        for reason, mask in self.reasons.items():
            number = int(np.count_nonzero(mask & rows))
            if number and reason:
                reasons[reason] = number
        return FitErrors(nodes=int(np.count_nonzero(rows)), reasons=reasons, unresolvable=self.unresolvable & rows)


class ErrorCache:
    """Nodes that refused a pod of a role are not asked again for the next pods of that role.

    One search keeps one cache; a pod without a role is always asked about.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Verdicts] = {}

    def search(
        self, key: tuple[str, str] | None, rows: BoolArray, judge: Callable[[BoolArray], Verdicts]
    ) -> tuple[BoolArray, FitErrors | None]:
        """Judge the rows that refused no pod of the same role; gives the feasible ones, or why there are none."""
        known = self._known.get(key) if key is not None else None
        asked = rows if known is None else rows & ~known.refused
        verdicts = judge(asked)
        feasible = asked & ~verdicts.refused
        errors = None
        if not feasible.any():
            combined = Verdicts(len(rows))
            if known is not None:
                combined.absorb(known, rows)
            combined.absorb(verdicts, asked)
            errors = combined.errors(rows)
        if key is not None and (verdicts.refused & asked).any():
            if known is None:
                known = self._known[key] = Verdicts(len(rows))
            known.absorb(verdicts, asked)
        return feasible, errors
