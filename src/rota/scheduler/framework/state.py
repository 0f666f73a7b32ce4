"""The memory of one scheduling attempt: what a plugin works out early and needs again later.

A plugin writes under its own keys (its name, or name plus a suffix). Values that change during an attempt (counts
that AddPod and RemovePod adjust) offer `clone`; all others are shared between the copies that what-if questions use.
The state of pods that no plugin can tell apart is kept from one attempt to the next, see `points.Signed`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo

T = TypeVar("T")

#: Where a Reserve, Permit or later plugin leaves the uids of pods (a set) that are to be tried at once when it is done.
PODS_TO_ACTIVATE: Final = "kubernetes.io/pods-to-activate"


class Cloneable(Protocol):
    """A value that must not be shared between an attempt and its what-if copies."""

    def clone(self) -> "Cloneable":
        """Give an independent copy."""


class CycleState:
    """Values of one attempt by key, plus which plugins asked to be left out of it."""

    __slots__ = ("_values", "cluster", "nominations", "skip_filter", "skip_score", "start")

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._values: dict[str, object] = {}
        #: The cluster that the attempt is about.
        self.cluster = cluster
        #: Pods that are to come to a node and go before ours, by the node's name.
        self.nominations: Mapping[str, Sequence[PodInfo]] = {}
        #: Plugins whose Filter, AddPod and RemovePod are left out of this attempt.
        self.skip_filter: set[str] = set()
        #: Plugins whose Score is left out of this attempt.
        self.skip_score: set[str] = set()
        #: Where searches that need not look at all nodes begin; an argument of the attempt, so that it can be repeated.
        self.start = 0

    def write(self, key: str, value: object) -> None:
        """Remember a value for the rest of the attempt."""
        self._values[key] = value

    def read(self, key: str, kind: type[T]) -> T:
        """Give back what was written; a missing key means that the plugin's earlier point did not run."""
        try:
            return cast("T", self._values[key])
        except KeyError:
            raise LookupError(
                f"no {kind.__name__} under {key!r}: was the plugin's PreFilter or PreScore run?"
            ) from None

    def find(self, key: str, kind: type[T]) -> T | None:
        """Give back what was written, or None."""
        return cast("T | None", self._values.get(key))

    def delete(self, key: str) -> None:
        """Forget a value; forgetting twice is fine."""
        self._values.pop(key, None)

    def fork(self) -> "CycleState":
        """Give a state that begins with the same values; what is written or deleted later stays apart.

        Values themselves are shared. For the way from decision to binding, while the original serves the next pod.
        """
        twin = CycleState(self.cluster)
        twin.nominations = self.nominations
        twin._values = dict(self._values)
        twin.skip_filter, twin.skip_score = self.skip_filter, self.skip_score
        twin.start = self.start
        return twin

    def clone(self) -> "CycleState":
        """Copy for a what-if question: changes to the copy do not reach the original."""
        copy = CycleState(self.cluster)
        copy.nominations = self.nominations
        copy._values = {key: _copied(value) for key, value in self._values.items()}
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        copy.start = self.start
        return copy


def _copied(value: object) -> object:
    # Not by `isinstance`, which looks at a protocol's members anew for every value of every node.
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()
