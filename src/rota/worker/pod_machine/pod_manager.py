"""All pods of one worker: events in, instructions out.

    machine = PodMachine(allocatable={...}, address="10.0.0.5")
    for instruction in machine.handle(event): ...
    sleep until machine.wake_at() or the next event

A pod is admitted only if it fits beside the other pods of the node, as in the kubelet. After a restart of the agent the
machine gets what the runtime found (`Adopted`), then the pods of the API, then `Synced`; an adopted pod that is not in
the API was deleted and is stopped.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rota.api import meta, resources
from rota.kit.heaps import KeyedHeap
from rota.worker.pod_machine import endings, machine_events
from rota.worker.pod_machine.machine_events import Event, Instruction
from rota.worker.pod_machine.pods import Pod

#: Resources of this domain are the worker's own: what it does not offer it does not have.
_OWN_DOMAIN: Final = "rota.dev/"


class PodMachine:
    """The state of one worker."""

    def __init__(self, *, allocatable: Mapping[str, int], address: str) -> None:
        """`allocatable` in the units of `rota.api.resources`; `address` is that of the machine, which pods share."""
        self._allocatable: Final = allocatable
        self._address: Final = address
        self._pods: Final[dict[str, Pod]] = {}
        self._wakes: Final[KeyedHeap[str, float]] = KeyedHeap()

    @property
    def pods(self) -> Iterable[Pod]:
        """Every known pod."""
        return self._pods.values()

    def pod(self, uid: str) -> Pod | None:
        """One pod."""
        return self._pods.get(uid)

    def wake_at(self) -> float | None:
        """When to send a Tick at the latest."""
        return None if not self._wakes else self._wakes.peek()[1]

    def handle(self, event: Event) -> list[Instruction]:
        """Handle an event; returns the instructions."""
        match event:
            case machine_events.Tick():
                return self._tick(event.now)
            case machine_events.Synced():
                return self._synced(event.now)
            case machine_events.PodSeen():
                return self._seen(event)
            case machine_events.Adopted():
                return self._adopted(event)
            case _:
                pod = self._pods.get(event.uid)
                if pod is None:
                    return []
                self._tell(pod, event)
                return self._advance(pod, event.now)

    def _tell(self, pod: Pod, event: Event) -> None:
        now = event.now
        match event:
            case machine_events.PodGone():
                pod.lose(now)
            case machine_events.VolumesReady():
                pod.prepared(now)
            case machine_events.VolumesFailed():
                pod.unprepared(event.message, now)
            case machine_events.Started():
                pod.start(event.container, event.run, event.id, now)
            case machine_events.StartFailed():
                pod.fail_to_start(event.container, event.run, event.reason, event.message, now)
            case machine_events.Exited():
                container = pod.containers.get(event.container)
                pod.exit(event.container, event.run, endings.of_exit(event, container), now)
            case machine_events.Probed():
                pod.probe(event)
            case machine_events.HookDone():
                pod.hook(event)
            case machine_events.Exceeded():
                pod.evict(event.message, now)

    def _seen(self, event: machine_events.PodSeen) -> list[Instruction]:
        pod = self._pods.get(meta.uid(event.pod))
        if pod is None:
            pod = self._new(event.pod, event.now)
            pod.restore()
            if not pod.over:
                self._check_room(pod)
        pod.see(event.pod, event.now)
        return self._advance(pod, event.now)

    def _adopted(self, event: machine_events.Adopted) -> list[Instruction]:
        pod = self._new(event.pod, event.now)
        # Until the API shows it, no status is written; its containers go on running.
        pod.confirmed_here = False
        last = {run.container: run.run for run in event.runs}
        for run in event.runs:
            if run.run == last[run.container]:
                pod.adopt(run, event.now)
            else:
                pod.adopt_previous(run)
        return self._advance(pod, event.now) if event.runs else []

    def _new(self, found: machine_events.Object, now: float) -> Pod:
        pod = Pod(found, now=now, address=self._address)
        self._pods[pod.uid] = pod
        return pod

    def _synced(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for pod in list(self._pods.values()):
            if not pod.confirmed_here:
                pod.lose(now)
                out += self._advance(pod, now)
        return out

    def _tick(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for uid, _ in list(self._wakes.pop_through(now)):
            out += self._advance(self._pods[uid], now, ticked=True)
        return out

    def _advance(self, pod: Pod, now: float, *, ticked: bool = False) -> list[Instruction]:
        out = pod.advance(now)
        wake = pod.wake_at()
        if wake is not None and ticked and wake <= now:
            wake = None  # it was handled without a result
        if pod.forgotten:
            del self._pods[pod.uid]
            wake = None
        if wake is None:
            self._wakes.discard(pod.uid)
        else:
            self._wakes.push(pod.uid, wake)
        return out

    def _check_room(self, new: Pod) -> None:
        """Refuse a pod that does not fit beside the other pods of the node."""
        used: dict[str, int] = {}
        count = 0
        for pod in self._pods.values():
            if pod is not new and not pod.over:
                count += 1
                for name, amount in pod.requests.items():
                    used[name] = used.get(name, 0) + amount
        left = resources.subtract(self._allocatable, used)
        left[resources.PODS] = self._allocatable.get(resources.PODS, 0) - count
        for one in resources.fits(left, new.requests):
            if self._is_counted_elsewhere(one.resource):
                continue
            what = resources.PODS if one.resource == resources.PODS else one.resource
            message = (
                f"Node didn't have enough resource: {what}, requested: {one.requested}, "
                f"used: {used.get(what, count)}, capacity: {self._allocatable.get(what, 0)}"
            )
            new.refuse(f"OutOf{what}", message)
            return

    def _is_counted_elsewhere(self, resource: str) -> bool:
        """Whether a client advertised this resource on the node: schedulers and the API server count it."""
        return "/" in resource and not resource.startswith(_OWN_DOMAIN) and resource not in self._allocatable
