"""Counts spot machines lost without notice, and pods that still ran when their machine ended.

Nothing is evicted because a node is silent: that may be the network, and the node lifecycle controller handles it. The
counts show operators that notices are missing or too late.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import meta
from rota.spot import evacuation
from rota.spot.node_readings import Reading
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.spot_metrics import SpotMetrics

Document = Mapping[str, Any]


class Losses:
    """Counts losses."""

    def __init__(self, event_reporter: EventReporter, metrics: SpotMetrics) -> None:
        self._event_reporter: Final = event_reporter
        self._metrics: Final = metrics
        #: Silent nodes by uid, each reported once.
        self._silent: Final[set[str]] = set()

    def watch(self, old: Document | None, new: Document, reading: Reading, pods: Sequence[Document]) -> bool:
        """A node has changed; whether it was lost by that. Nodes that were silent at the start do not count."""
        uid, silent = meta.uid(new), _is_silent(new)
        if not silent:
            self._silent.discard(uid)
        elif uid not in self._silent and reading.capacity.leaves and reading.notice is None:
            self._silent.add(uid)
            if old is not None:
                self._metrics.unnoticed.labels("unreachable").inc()
                said = f"a spot machine does not answer any more, without notice; {len(pods)} pods are on it"
                self._event_reporter.node(new, "SpotLostWithoutNotice", said, warning=True)
            return True
        return False

    def gone(self, node: Document, reading: Reading, pods: Sequence[Document], *, noticed: bool) -> None:
        """A node is gone. A node without pods that must leave was removed, not lost."""
        uid = meta.uid(node)
        known = uid in self._silent
        self._silent.discard(uid)
        if not pods or not (noticed or reading.capacity.leaves):
            return
        self._metrics.lost.inc(len(pods))
        if noticed:
            self._event_reporter.node(
                node, "SpotPodsLost", f"is gone, and {len(pods)} pods had not left it", warning=True
            )
        elif not known:
            self._metrics.unnoticed.labels("vanished").inc()
            said = f"a spot machine is gone without notice, and {len(pods)} pods with it"
            self._event_reporter.node(node, "SpotLostWithoutNotice", said, warning=True)


def counts(pod: Document) -> bool:
    """Whether a pod must leave its machine, evicted already or not."""
    living = {name: value for name, value in pod["metadata"].items() if name != "deletionTimestamp"}
    return evacuation.must_leave({**pod, "metadata": living})


def _is_silent(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "Unknown" for one in conditions)
