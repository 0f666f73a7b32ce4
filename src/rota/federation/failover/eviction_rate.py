"""How fast bindings leave clusters that are lost. Pure.

If no cluster answers, the control plane itself is most likely cut off: nothing is evicted, because nothing could be
placed and everything may still run. If most clusters are lost, evictions are slower, so that the others are not
overloaded at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta

Object: TypeAlias = Mapping[str, Any]

#: Evictions per second from lost clusters, as upstream has it.
RATE: Final = 0.5
#: The share of lost clusters from which evictions are slower, and by how much.
LARGE_SHARE: Final = 0.55
SLOWER: Final = 0.2


def share_lost(clusters: Iterable[Object]) -> float:
    """The share of clusters that are not known to be ready; those that leave the federation do not count."""
    ready = [meta.is_condition_true(one, "Ready") for one in clusters if not meta.is_deleting(one)]
    return 0.0 if not ready else ready.count(False) / len(ready)


def interval_s(clusters: Iterable[Object], rate: float = RATE) -> float | None:
    """The time between two evictions; None if there must be none."""
    lost = share_lost(clusters)
    if lost >= 1:
        return None
    return 1 / (rate * SLOWER) if lost >= LARGE_SHARE else 1 / rate
