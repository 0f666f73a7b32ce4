"""Why a binding cannot be placed. The words are upstream's: they end up in the binding's condition."""

from collections import Counter
from collections.abc import Mapping


class PlacementError(Exception):
    """The binding cannot be placed."""


class Unschedulable(PlacementError):
    """The clusters have too little capacity."""


class SelectionError(PlacementError):
    """No choice of clusters satisfies the spread constraints."""


class NoClusterFits(PlacementError):
    """Every cluster is refused by some filter."""

    def __init__(self, clusters: int, reasons: Mapping[str, Mapping[str, str]]) -> None:
        self.clusters = clusters
        #: By cluster: every filter that refuses it, with its words.
        self.reasons = reasons
        super().__init__(self._message())

    @property
    def certain(self) -> bool:
        """Whether each cluster is refused by one filter only, so that the message does not depend on their order."""
        return all(len(by_filter) == 1 for by_filter in self.reasons.values())

    def _message(self) -> str:
        if not self.reasons:
            return f"0/{self.clusters} clusters are available: no cluster exists."
        counted = Counter(next(iter(by_filter.values())) for by_filter in self.reasons.values())
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{self.clusters} clusters are available: {listed}."
