"""Spot machines that are lost without notice, and pods that were still there when their machine went.

Nothing is evicted because of silence: a network may flap. What happens then is the node controller's. Here it is
counted and told, so that somebody sees that notices do not come, or come too late.
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
    """Counts what was lost."""

    def __init__(self, event_reporter: EventReporter, figures: SpotMetrics) -> None:
        self._event_reporter: Final = event_reporter
        self._figures: Final = figures
        #: Nodes that are silent, by uid: told once.
        self._silent: Final[set[str]] = set()

    def watch(self, old: Document | None, new: Document, reading: Reading, pods: Sequence[Document]) -> bool:
        """A node has changed; whether it was lost by that. Those that were silent when we came are not news."""
        uid, silent = meta.uid(new), _is_silent(new)
        if not silent:
            self._silent.discard(uid)
        elif uid not in self._silent and reading.capacity.leaves and reading.notice is None:
            self._silent.add(uid)
            if old is not None:
                self._figures.unnoticed.labels("unreachable").inc()
                said = f"a spot machine does not answer any more, without notice; {len(pods)} pods are on it"
                self._event_reporter.node(new, "SpotLostWithoutNotice", said, warning=True)
            return True
        return False

    def gone(self, node: Document, reading: Reading, pods: Sequence[Document], *, noticed: bool) -> None:
        """A node is no more. One without pods that matter was removed, not lost."""
        uid = meta.uid(node)
        known = uid in self._silent
        self._silent.discard(uid)
        if not pods or not (noticed or reading.capacity.leaves):
            return
        self._figures.lost.inc(len(pods))
        if noticed:
            self._event_reporter.node(
                node, "SpotPodsLost", f"is gone, and {len(pods)} pods had not left it", warning=True
            )
        elif not known:
            self._figures.unnoticed.labels("vanished").inc()
            said = f"a spot machine is gone without notice, and {len(pods)} pods with it"
            self._event_reporter.node(node, "SpotLostWithoutNotice", said, warning=True)


def counts(pod: Document) -> bool:
    """Whether a pod is one that has to leave its machine, told to go already or not."""
    living = {name: value for name, value in pod["metadata"].items() if name != "deletionTimestamp"}
    return evacuation.must_leave({**pod, "metadata": living})


def _is_silent(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "Unknown" for one in conditions)
