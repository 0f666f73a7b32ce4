"""The measured usage of nodes, from NodeMetrics of metrics.k8s.io."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.scheduler.batch import amounts
from rota.scheduler.batch.times import seconds

#: Older figures are not used.
FRESH_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What the pods and programs of a node use."""

    #: Thousandths of a core.
    cpu: float
    #: Bytes.
    memory: float
    #: The time of the measurement, in seconds since the epoch.
    at: float

    def fresh(self, now: float) -> bool:
        """Whether the figures are recent enough to decide by."""
        return now - self.at <= FRESH_S


def of_documents(metrics: Iterable[Mapping[str, Any]]) -> dict[str, NodeUsage]:
    """Read NodeMetrics by the names of their nodes; one without a time has no use and is left out."""
    found = {}
    for each in metrics:
        if at := each.get("timestamp"):
            used = amounts.read(each.get("usage"))
            found[str(each["metadata"]["name"])] = NodeUsage(used.cpu, used.memory, seconds(at))
    return found
