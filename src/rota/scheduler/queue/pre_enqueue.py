"""The pre-enqueue gate: whether a pod may enter the active queue, and its sort key.

PreEnqueue plugins may hold a pod back. A QueueSort plugin that raises holds its pod back as well, so that it does not
stop the others. The reason is kept in the entry.
"""

from rota.kit import logs
from rota.scheduler.framework import queueing_hints
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import SUCCESS, fault
from rota.scheduler.queue.entries import QueuedPod

log = logs.get(__name__)


class PreEnqueueGate:
    """The gate of one profile."""

    __slots__ = ("_framework", "_gated", "_sorter")

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._gated = bool(framework.at(ExtensionPoint.PRE_ENQUEUE))
        (self._sorter,) = framework.at(ExtensionPoint.QUEUE_SORT)

    def admits(self, queued: QueuedPod) -> bool:
        """Whether a pod may be tried; the plugin that last held it back runs first."""
        if self._gated:
            answer = queueing_hints.admit(self._framework, queued.pod, first=queued.gate)
            if not answer.ok:
                if answer.error is not None and queued.gate != answer.plugin:  # told once, not at every event
                    log.exception("PreEnqueue failed", error=answer.error, pod=queued.pod.key, plugin=answer.plugin)
                queued.gate, queued.held = answer.plugin, answer
                return False
        queued.gate, queued.held = "", SUCCESS
        return self.sorts(queued)

    def sorts(self, queued: QueuedPod) -> bool:
        """Compute the sort key of a pod; returns whether that was possible."""
        try:
            queued.sort_key = self._sorter.sort_key(queued.pod, queued.queued_at)
        except Exception as error:  # plugins are other people's code
            name: str = self._sorter.name
            if queued.gate != name:
                log.exception("QueueSort failed", error=error, pod=queued.pod.key, plugin=name)
            queued.gate, queued.held = name, fault(error, plugin=name)
            return False
        return True
