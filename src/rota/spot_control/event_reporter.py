"""Events and log lines of the spot controller about nodes and pods."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from rota.api import meta
from rota.client.events.recorder import EventRecorder
from rota.kit import logs

log = logs.get(__name__)

_ACTION: Final = "LeavingSpot"


class EventReporter:
    """Reports actions after they are done; a dry run only logs them."""

    def __init__(self, recorder: EventRecorder | None) -> None:
        self._recorder: Final = recorder
        #: Pods with invalid annotations that were reported, by uid.
        self._misread: Final[set[str]] = set()

    def node(self, node: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Report an event of a node."""
        log.info(message, node=meta.name(node), reason=reason)
        self._event("Node", node, "Warning" if warning else "Normal", reason, message)

    def pod(self, pod: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Report an event of a pod."""
        log.info(message, pod=f"{meta.namespace(pod)}/{meta.name(pod)}", reason=reason)
        self._event("Pod", pod, "Warning" if warning else "Normal", reason, message)

    def misread(self, pod: Mapping[str, Any], problem: str) -> None:
        """Report invalid or contradictory annotations of a pod, once."""
        if meta.uid(pod) not in self._misread:
            self._misread.add(meta.uid(pod))
            self.pod(pod, "SpotPolicyUnusable", problem, warning=True)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._misread.discard(uid)

    def _event(
        self,
        kind: str,
        about: Mapping[str, Any],
        type: Literal["Normal", "Warning"],  # noqa: A002 - the word of the API
        reason: str,
        message: str,
    ) -> None:
        if self._recorder is None:
            return
        names = {name: about["metadata"][name] for name in ("namespace", "name", "uid") if name in about["metadata"]}
        reference = {"apiVersion": "v1", "kind": kind, "metadata": names}
        self._recorder.event(reference, type, reason, message, action=_ACTION)
