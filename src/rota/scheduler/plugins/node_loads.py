"""The measured and forecast load of nodes, from NodeForecast objects, as arrays by row.

A forecast says which requests were on the node when it was measured. What has been requested since then is not in the
figures yet; `unmeasured` has it, so that a quiet node does not attract pods faster than it is measured.

A node without a forecast, or whose forecast is older than the newest one by more than `STALE_S`, counts as unmeasured:
its load follows from its requests. `neutral` then keeps it within the range of the measured nodes, so that a missing
measurement makes no node the best or the worst. There is no clock here: if nothing measures any more, all forecasts
stay as they are, and pods that come are added to them.
"""

from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rota.api import times
from rota.api.resources import CPU, MEMORY, amount
from rota.columns.arrays import BoolArray, FloatArray, Rows
from rota.columns.cluster import Cluster
from rota.scheduler.framework.watched_kind import WatchedKind

KIND: Final = "NodeForecast"
FORECASTS: Final = WatchedKind(KIND, ("rota.dev", "v1alpha1", "nodeforecasts"), silent=True)
#: In the order of the first axis of all arrays here, which is that of the cluster's columns.
RESOURCES: Final = (CPU, MEMORY)
STALE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class NodeLoads:
    """Arrays of shape (2, capacity): millicores and bytes."""

    used: FloatArray
    mean: FloatArray
    deviation: FloatArray
    peak: FloatArray
    #: The requests that were on the node when it was measured.
    counted: FloatArray
    known: BoolArray

    def complete(self, rows: Rows) -> BoolArray:
        """The rows that are known in both resources."""
        return np.asarray(self.known[:, rows].all(axis=0))

    def unmeasured(self, cluster: Cluster, rows: Rows) -> FloatArray:
        """What pods request that came after the measurement; shape (2, rows)."""
        now = cluster.requested[:2, rows]
        return np.where(self.known[:, rows], np.maximum(now - self.counted[:, rows], 0.0), 0.0)


class KeptLoads:
    """The loads of a cluster, read again when a forecast or a node has changed."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Cluster, tuple[tuple[int, int, int], NodeLoads]] = WeakKeyDictionary()

    def of(self, cluster: Cluster) -> NodeLoads:
        """The loads of all nodes."""
        version = cluster.catalog.version(KIND), cluster.node_version, cluster.capacity
        kept = self._kept.get(cluster)
        if kept is None or kept[0] != version:
            kept = self._kept[cluster] = version, read(cluster)
        return kept[1]


def read(cluster: Cluster) -> NodeLoads:
    """Read the forecasts of the catalog; one that cannot be read counts as missing."""
    shape = len(RESOURCES), cluster.capacity
    used, mean, deviation, peak, counted = (np.zeros(shape) for _ in range(5))
    known = np.zeros(shape, dtype=np.bool_)
    measured: npt.NDArray[np.float64] = np.full(cluster.capacity, -np.inf)
    for document in cluster.catalog.list(KIND):
        node = cluster.by_name.get(document["metadata"]["name"])
        status: dict[str, Any] = document.get("status") or {}
        if node is None:
            continue
        try:
            measured[node.row] = times.parse(status["observedTime"])
            for figures in status.get("resources") or ():
                name = figures["resource"]
                if name not in RESOURCES or figures.get("basis") != "Measured":
                    continue
                at = RESOURCES.index(name), node.row
                for column, field in ((used, "used"), (mean, "mean"), (deviation, "deviation"), (peak, "peak")):
                    column[at] = amount(name, figures[field])
                counted[at] = amount(name, figures["requested"])
                known[at] = True
        except (KeyError, ValueError, TypeError):
            known[:, node.row] = False
    known &= measured >= measured.max(initial=-np.inf) - STALE_S
    return NodeLoads(used, mean, deviation, peak, counted, known)


def neutral(values: FloatArray, known: BoolArray) -> FloatArray:
    """Bound the values of unknown rows by those of known rows; without any known row, all are equal."""
    if known.all():
        return values
    if not known.any():
        return np.zeros(len(values))
    inside = values[known]
    return np.where(known, values, np.clip(values, inside.min(), inside.max()))
