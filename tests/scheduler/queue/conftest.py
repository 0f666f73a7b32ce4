"""A queue with plugins whose every answer a test decides, and a clock that it moves."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Enabled, Handle, NoArgs, ProfileSpec, Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Status, unschedulable
from rota.scheduler.queue.entries import QueuedPod, QueueState
from rota.scheduler.queue.scheduling_queue import SchedulingQueue, Timings
from rota.testing.clusters import make_pod

NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD)
NODE_TAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
POD_DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_ADDED = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)


class _Plugin:
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass


class Sorter(_Plugin):
    """By priority, then by time; raises for pods labelled `unsortable`."""

    name: ClassVar[str] = "Sorter"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        if "unsortable" in pod.labels:
            raise ValueError("cannot be compared")
        return -pod.priority, queued_at


class Gate(_Plugin):
    """Holds back pods that have scheduling gates; their removal and new claims are worth a look."""

    name: ClassVar[str] = "Gate"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unschedulable("gated") if pod.shape.scheduling_gates else None

    def events_to_register(self) -> Sequence[Subscription]:
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GATES_ELIMINATED)
        return (Subscription(own), Subscription(CLAIM_ADDED, lambda pod, old, new: Hint.SKIP))


def helps(pod: PodInfo, old: Any, new: Any) -> Hint:
    """What tests hand in as the object after an event is the names of the pods that it helps."""
    if new is None:
        raise ValueError("nothing to look at")
    return Hint.QUEUE if pod.name in new else Hint.SKIP


class Picky(_Plugin):
    """Is woken by nodes, for the pods that the event names."""

    name: ClassVar[str] = "Picky"

    def filter(self, *_: object) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[Subscription]:
        own = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
        return (Subscription(NODE_ADDED, helps), Subscription(own))


class Easy(_Plugin):
    """Is woken by every deleted pod and every claim."""

    name: ClassVar[str] = "Easy"

    def filter(self, *_: object) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[Subscription]:
        return (Subscription(POD_DELETED), Subscription(CLAIM_ADDED))


class Deaf(_Plugin):
    """Is woken by nothing but time."""

    name: ClassVar[str] = "Deaf"

    def filter(self, *_: object) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[Subscription]:
        return ()


class Eager(_Plugin):
    """Did not say what wakes its pods, so everything does."""

    name: ClassVar[str] = "Eager"

    def filter(self, *_: object) -> Status | None:
        return None


_FILTERS = (Picky, Easy, Deaf, Eager)


def framework(name: str = "default-scheduler") -> Framework:
    """A profile of the plugins above."""
    registry = Registry([Sorter, Gate, *_FILTERS])
    points = {
        ExtensionPoint.QUEUE_SORT: (Enabled("Sorter"),),
        ExtensionPoint.PRE_ENQUEUE: (Enabled("Gate"),),
        ExtensionPoint.FILTER: tuple(Enabled(plugin.name) for plugin in _FILTERS),
    }
    return Framework(ProfileSpec(scheduler_name=name, points=points), registry)


class Waiting:
    """A queue on its own clock; pods are spoken of by name."""

    def __init__(self, profiles: Iterable[str] = ("default-scheduler",), timings: Timings | None = None) -> None:
        self.now = 1000.0
        self.interner = PodInterner()
        self.queue = SchedulingQueue({name: framework(name) for name in profiles}, timings)

    def pod(self, name: str, *, nominated: str = "", gates: Iterable[str] = (), **fields: Any) -> PodInfo:
        document = make_pod(name, schedulingGates=[{"name": gate} for gate in gates], **fields)
        document["status"]["nominatedNodeName"] = nominated
        return self.interner.pod(document)

    def add(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.queue.add(self.pod(name, **fields), self.now)

    def update(self, name: str, **fields: Any) -> None:
        self.queue.update(self.pod(name, **fields), self.now)

    def delete(self, name: str) -> QueuedPod | None:
        return self.queue.delete(f"uid-{name}")

    def pop(self) -> str:
        queued = self.queue.pop(self.now)
        return "" if queued is None else queued.pod.name

    def fail(self, name: str, *unschedulable_plugins: str, pending: Iterable[str] = ()) -> QueueState:
        """Bring a popped pod back; without rejectors, after a fault."""
        queued = self.queue.requeue(
            f"uid-{name}", now=self.now, unschedulable_plugins=unschedulable_plugins, pending=tuple(pending)
        )
        assert queued is not None
        return queued.place

    def refuse(self, name: str, *unschedulable_plugins: str, **fields: Any) -> QueueState:
        """Add a pod, try it and have it turned away."""
        self.add(name, **fields)
        assert self.pop() == name
        return self.fail(name, *unschedulable_plugins)

    def move(self, event: ClusterEvent, *helped: str) -> int:
        return self.queue.move(event, None, helped, now=self.now)

    def activate(self, *names: str) -> int:
        return self.queue.activate([f"uid-{name}" for name in names], now=self.now)

    def after(self, seconds: float) -> int:
        self.now += seconds
        return self.queue.flush(self.now)

    def place(self, name: str) -> QueueState | None:
        queued = self.queue.get(f"uid-{name}")
        return None if queued is None else queued.place

    def get(self, name: str) -> QueuedPod:
        queued = self.queue.get(f"uid-{name}")
        assert queued is not None
        return queued

    def all_popped(self) -> list[str]:
        return list(iter(self.pop, ""))


Make = Callable[..., Waiting]
