"""Changes for the batch profile, from informer events, in order, until the next pass takes them.

Handlers run on the event loop, after those of the scheduler's cache. Each says whether the change may let a waiting
group start (`decisive`): only then a pass is needed. A pod that got its node or started only changes the status of its
group.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from rota.client.informers.cache import Key
from rota.columns.members import GroupMember
from rota.columns.pods import PodInfo
from rota.scheduler.batch import binding_plans
from rota.scheduler.batch.mirror import Mirror
from rota.scheduler.ingest import decoder
from rota.scheduler.ingest.decoder import EndedMember, NodeRecord, Unreadable

Document = Mapping[str, Any]
Apply: TypeAlias = Callable[[Mirror], None]


class Inbox:
    """Changes that no pass has seen."""

    def __init__(self, scheduler_names: Collection[str], *, wake: Callable[[], None]) -> None:
        """`wake` is called after every change."""
        self.scheduler_names: Collection[str] = scheduler_names
        self._wake: Final = wake
        self._changes: list[Apply] = []
        #: Groups whose pods or objects changed.
        self.touched: set[str] = set()
        #: Whether a pass is needed.
        self.decisive = False
        #: PodGroups that have a plan, by key.
        self.planned: Final[dict[str, Document]] = {}
        #: Changes are kept only while there is a mirror.
        self.open = False

    def take(self) -> tuple[list[Apply], set[str], bool]:
        """Give all changes, the groups that they touch, and whether a pass is needed."""
        taken = self._changes, self.touched, self.decisive
        self._changes, self.touched, self.decisive = [], set(), False
        return taken

    def add(self, change: Apply, *, group: str = "", decisive: bool) -> None:
        """Add a change."""
        if not self.open:
            return
        self._changes.append(change)
        if group:
            self.touched.add(group)
        self.decisive |= decisive
        self._wake()

    # --- pods -------------------------------------------------------------------------------------------------------

    def pod(self, _: Key, old: Any, new: Any) -> None:
        """A pod was added, updated or deleted."""
        if not self.open:
            return
        before, after = self._record(old), self._record(new)
        if after is not None:
            info, member = after
            group = f"{info.namespace}/{member.group}"
            self.add(lambda mirror: mirror.put_member(info, member), group=group, decisive=_matters(before, after))
        elif before is not None:
            info, member = before
            group = f"{info.namespace}/{member.group}"
            self.add(lambda mirror: mirror.remove_pod(info.uid), group=group, decisive=True)
        else:
            self._ordinary(old, new)

    async def first_pods(self, pods: Collection[tuple[Key, Any]]) -> None:
        """The initial list; a mirror is filled from the informers' caches, so nothing is kept."""

    def _ordinary(self, old: Any, new: Any) -> None:
        """A pod of another profile: it matters when it leaves room."""
        if isinstance(new, PodInfo):
            if new.node_name and new.terminating and not (isinstance(old, PodInfo) and old.terminating):
                uid, node, requests = new.uid, new.node_name, new.shape.requests
                self.add(lambda mirror: mirror.put_leaving(uid, node, requests), decisive=False)
        elif isinstance(old, PodInfo) and old.node_name:
            uid = old.uid
            self.add(lambda mirror: mirror.remove_pod(uid), decisive=True)

    def _record(self, pod: Any) -> tuple[PodInfo, GroupMember] | None:
        """A pod that is a member of a group for this profile."""
        if isinstance(pod, EndedMember):
            return pod.info, pod.member
        if not isinstance(pod, PodInfo) or pod.member is None:
            return None
        served = bool(pod.node_name) or pod.shape.scheduler_name in self.scheduler_names
        return (pod, pod.member) if served else None

    # --- nodes ------------------------------------------------------------------------------------------------------

    def node(self, key: Key, old: Any, new: Any) -> None:
        """A node was added, updated or deleted."""
        if not self.open:
            return
        name = key.name
        ready = isinstance(new, NodeRecord) and is_ready(new)
        was = isinstance(old, NodeRecord) and is_ready(old)
        changed = not isinstance(old, NodeRecord) or not isinstance(new, NodeRecord) or old.view != new.view
        if changed or ready != was:
            self.add(lambda mirror: mirror.set_ready(name, ready=ready or new is None), decisive=ready)

    # --- other objects ----------------------------------------------------------------------------------------------

    def object(self, kind: str) -> Callable[[Key, Any, Any], None]:
        """The handler of a kind."""

        def handle(key: Key, old: Any, new: Any) -> None:
            before = None if isinstance(old, Unreadable) else old
            after = None if isinstance(new, Unreadable) else new
            if before is None and after is None:
                return
            if kind == "PodGroup":
                self._group(str(key), before, after)
            elif kind == "Queue":
                self._queue(key.name, before, after)
            elif after is not None:
                decisive = before is None or before.get("spec") != after.get("spec") or kind == "PriorityClass"
                self.add(lambda mirror: mirror.put_other(kind, after), decisive=decisive)
            else:
                self.add(lambda mirror: mirror.remove_other(kind, str(key)), decisive=True)

        return handle

    def _group(self, key: str, old: Document | None, new: Document | None) -> None:
        if new is None:
            self.planned.pop(key, None)
            self.add(lambda mirror: mirror.remove_group(key), decisive=True)
            return
        if binding_plans.is_planned(new):
            self.planned[key] = new
        else:
            self.planned.pop(key, None)
        decisive = old is None or old.get("spec") != new.get("spec") or _returned(old, new)
        self.add(lambda mirror: mirror.put_group(new), group=key, decisive=decisive)

    def _queue(self, name: str, old: Document | None, new: Document | None) -> None:
        if new is None:
            self.add(lambda mirror: mirror.remove_queue(name), decisive=True)
            return
        decisive = old is None or old.get("spec") != new.get("spec") or _state(old) != _state(new)
        self.add(lambda mirror: mirror.put_queue(new), decisive=decisive)


def is_ready(node: NodeRecord) -> bool:
    """Whether a node is ready, or does not say."""
    conditions = decoder.report(node).status.conditions or ()
    return all(each.status == "True" for each in conditions if each.type == "Ready")


def _matters(before: tuple[PodInfo, GroupMember] | None, after: tuple[PodInfo, GroupMember]) -> bool:
    """Whether a change of a pod may let a group start."""
    info, member = after
    if before is None:
        return not info.node_name or member.leaving
    was, said = before
    if member.over or member.leaving:
        return not (said.over or said.leaving) or member.over != said.over
    if info.node_name:
        return False
    return info.shape is not was.shape or member.annotations != said.annotations


def _returned(old: Document, new: Document) -> bool:
    """Whether a group has to be let in again."""
    phase = (new.get("status") or {}).get("phase") or "Pending"
    return phase == "Pending" and phase != ((old.get("status") or {}).get("phase") or "Pending")


def _state(queue: Document) -> str:
    return str((queue.get("status") or {}).get("state") or "")
