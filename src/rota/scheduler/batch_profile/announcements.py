"""Events about groups, and why pods are not bound, on the pods: each said once, and again only after a while."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from rota.client.events.recorder import EventRecorder
from rota.kit.clock import Clock
from rota.scheduler.batch.passes import GroupStatus, PodNote
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import PodStatusPatch
from rota.scheduler.status.pod_status import PodStatusWriter

#: How often the same reason is written on a pod with other words.
_AGAIN_S: Final = 60.0
#: So many entries of objects that are gone are kept at most, beside one for each object that exists.
_SPARE: Final = 1024


class Announcements:
    """What was said about groups and pods."""

    def __init__(self, recorder: EventRecorder, notes: PodStatusWriter, *, clock: Clock) -> None:
        self._recorder: Final = recorder
        self._notes: Final = notes
        self._clock: Final = clock
        #: By pod, the last note, and when it was written.
        self._noted: Final[dict[str, tuple[str, str, float]]] = {}
        #: By group, its uid and the condition that the last event was about.
        self._announced: Final[dict[str, tuple[str, str]]] = {}

    def group(self, key: str, one: GroupStatus) -> None:
        """Write an event about a group that became schedulable or unschedulable."""
        for condition in one.status.get("conditions") or ():
            told_about = (one.group["metadata"].get("uid") or "", condition["type"])
            if condition["status"] != "True" or self._announced.get(key) == told_about:
                continue
            self._announced[key] = told_about
            kind: Literal["Warning", "Normal"] = "Warning" if condition["type"] == "Unschedulable" else "Normal"
            told = fit_errors.shortened(condition.get("message") or condition["reason"])
            self._recorder.event(reference(one.group), kind, condition["type"], told, action="Scheduling")

    def pod(self, note: PodNote) -> None:
        """Write a note on a pod."""
        now, pod = self._clock.monotonic(), note.pod
        reason, nominated, at = self._noted.get(pod.uid, ("", "", -_AGAIN_S))
        if (reason, nominated) == (note.reason, note.nominated) and now - at < _AGAIN_S:
            return
        self._noted[pod.uid] = note.reason, note.nominated, now
        patch = PodStatusPatch(condition=(note.reason, note.message), nominated=note.nominated or None)
        self._notes.write(pod, patch)

    def bound(self, uid: str) -> None:
        """Forget a pod that got its node."""
        self._noted.pop(uid, None)

    def forget_gone(self, pods: Collection[str], groups: Collection[str]) -> None:
        """Remove entries of objects that are gone, once they are more than the others."""
        for table, present in ((self._noted, pods), (self._announced, groups)):
            if len(table) > 2 * len(present) + _SPARE:
                for gone in table.keys() - set(present):
                    del table[gone]


def reference(group: Mapping[str, Any]) -> dict[str, Any]:
    """Give what an event about a group refers to."""
    meta = group["metadata"]
    metadata = {name: meta[name] for name in ("namespace", "name", "uid") if name in meta}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
