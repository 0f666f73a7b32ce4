"""The state of one scheduling attempt: values that a plugin computes at one point and reads at a later one.

A plugin writes under its own keys (its name, or its name plus a suffix). Values that change during an attempt (counts
that AddPod and RemovePod adjust) have a `clone` method; all others are shared between the copies of what-if
transactions. The state of pods with equal signatures is kept from one attempt to the next, see
`plugin_interfaces.Signed`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo

T = TypeVar("T")

#: Key under which a Reserve, Permit or later plugin leaves a set of pod uids that are to be tried at once.
PODS_TO_ACTIVATE: Final = "kubernetes.io/pods-to-activate"
#: Key under which a Reserve plugin leaves the GPU devices that the Binding is to name.
GPU_DEVICES: Final = "rota.dev/gpu-devices"


class Cloneable(Protocol):
    """A value that must not be shared between an attempt and its what-if copies."""

    def clone(self) -> "Cloneable":
        """An independent copy."""


class CycleState:
    """Values of one attempt by key, and the plugins that are skipped in it."""

    __slots__ = ("_values", "cluster", "nominations", "skip_filter", "skip_score", "start")

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._values: dict[str, object] = {}
        #: The cluster of the attempt.
        self.cluster = cluster
        #: Nominated pods with precedence over this pod, by node name.
        self.nominations: Mapping[str, Sequence[PodInfo]] = {}
        #: Plugins whose Filter, AddPod and RemovePod are skipped in this attempt.
        self.skip_filter: set[str] = set()
        #: Plugins whose Score is skipped in this attempt.
        self.skip_score: set[str] = set()
        #: The first row of searches that do not examine all nodes; an argument, so that an attempt can be repeated.
        self.start = 0

    def write(self, key: str, value: object) -> None:
        """Keep a value for the rest of the attempt."""
        self._values[key] = value

    def read(self, key: str, kind: type[T]) -> T:
        """The value of a key; a missing key means that the plugin's earlier point did not run."""
        try:
            return cast("T", self._values[key])
        except KeyError:
            raise LookupError(
                f"no {kind.__name__} under {key!r}: was the plugin's PreFilter or PreScore run?"
            ) from None

    def find(self, key: str, kind: type[T]) -> T | None:
        """The value of a key, or None."""
        return cast("T | None", self._values.get(key))

    def delete(self, key: str) -> None:
        """Delete a value, if it exists."""
        self._values.pop(key, None)

    def fork(self) -> "CycleState":
        """A state with the same values; later writes and deletions do not affect the other one.

        The values themselves are shared. Used for the binding cycle, while the original serves the next pod.
        """
        twin = CycleState(self.cluster)
        twin.nominations = self.nominations
        twin._values = dict(self._values)
        twin.skip_filter, twin.skip_score = self.skip_filter, self.skip_score
        twin.start = self.start
        return twin

    def clone(self) -> "CycleState":
        """Copy for a what-if transaction: changes of the copy do not affect the original."""
        copy = CycleState(self.cluster)
        copy.nominations = self.nominations
        copy._values = {key: _copied(value) for key, value in self._values.items()}
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        copy.start = self.start
        return copy


def _copied(value: object) -> object:
    # Not `isinstance`, which inspects the protocol's members again for every value of every node.
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()
