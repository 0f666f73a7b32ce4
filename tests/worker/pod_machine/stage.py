"""A machine with a runtime that does what tests tell it, and keeps count of what runs."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rota.api import times
from rota.worker.pod_machine import machine_events
from rota.worker.pod_machine.machine_events import Event, Instruction
from rota.worker.pod_machine.pod_manager import PodMachine

NOW = times.parse("2026-01-01T00:00:00Z")
PLENTY = {"cpu": 64_000, "memory": 2**36, "ephemeral-storage": 2**40, "pods": 110}

T = TypeVar("T", bound=Instruction)


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", **fields}


def pod(
    *containers: dict[str, Any], name: str = "p", init: Sequence[dict[str, Any]] = (), status: Any = None, **spec: Any
) -> dict[str, Any]:
    whole = {"containers": list(containers) or [container("c")], **spec}
    if init:
        whole["initContainers"] = list(init)
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole, "status": status or {}}


def deleted(found: dict[str, Any], *, at: float, grace: int) -> dict[str, Any]:
    marks = {"deletionTimestamp": times.format_time(at + grace), "deletionGracePeriodSeconds": grace}
    return {**found, "metadata": {**found["metadata"], **marks}}


class Stage:
    """Sends events, remembers instructions, and refuses to run anything twice."""

    def __init__(self, *, allocatable: dict[str, int] | None = None) -> None:
        self.machine = PodMachine(allocatable=allocatable or PLENTY, address="192.0.2.7")
        self.now = NOW
        self.sent: list[Instruction] = []
        self.running: dict[tuple[str, str], int] = {}
        self.status: dict[str, Any] = {}
        self.uid = "uid-p"

    def send(self, make: Callable[..., Event], **fields: Any) -> list[Instruction]:
        out = self.machine.handle(make(now=self.now, **fields))
        for one in out:
            if isinstance(one, machine_events.Start):
                assert (one.uid, one.container) not in self.running, "runs already"
                self.running[one.uid, one.container] = one.run
            if isinstance(one, machine_events.WriteStatus) and one.uid == self.uid:
                self.status = one.status
        self.sent += out
        return out

    def see(self, found: dict[str, Any]) -> list[Instruction]:
        return self.send(machine_events.PodSeen, pod=found)

    def begin(self, found: dict[str, Any]) -> list[Instruction]:
        """A new pod whose folders are made at once."""
        self.see(found)
        return self.send(machine_events.VolumesReady, uid=found["metadata"]["uid"])

    def started(self, name: str = "c") -> list[Instruction]:
        run = self.running[self.uid, name]
        return self.send(machine_events.Started, uid=self.uid, container=name, run=run, id=f"{name}-{run}")

    def exited(self, name: str = "c", code: int = 0, **fields: Any) -> list[Instruction]:
        run = self.running.pop((self.uid, name))
        return self.send(machine_events.Exited, uid=self.uid, container=name, run=run, code=code, **fields)

    def probed(self, kind: str, success: bool, name: str = "c", times: int = 1) -> None:
        for _ in range(times):
            run = self.running[self.uid, name]
            self.send(
                machine_events.Probed,
                uid=self.uid,
                container=name,
                run=run,
                kind=kind,
                success=success,
                message="no answer",
            )

    def hooked(self, hook: str, success: bool = True, name: str = "c") -> list[Instruction]:
        run = self.running[self.uid, name]
        return self.send(machine_events.HookDone, uid=self.uid, container=name, run=run, hook=hook, success=success)

    def passes(self, seconds: float) -> list[Instruction]:
        """Let time pass, with a tick at every moment that the machine asked for."""
        until, out = self.now + seconds, []
        while (wake := self.machine.wake_at()) is not None and wake <= until:
            self.now = max(self.now, wake)
            out += self.send(machine_events.Tick)
        self.now = until
        return out

    def last(self, kind: type[T]) -> T:
        return [one for one in self.sent if isinstance(one, kind)][-1]

    def starts(self) -> list[str]:
        return [one.container for one in self.sent if isinstance(one, machine_events.Start)]

    def told(self) -> list[str]:
        return [one.reason for one in self.sent if isinstance(one, machine_events.Tell)]

    def state(self, name: str = "c") -> Any:
        every = [*self.status["containerStatuses"], *self.status.get("initContainerStatuses", [])]
        return next(one for one in every if one["name"] == name)

    def condition(self, kind: str) -> tuple[str, str]:
        found = next(one for one in self.status["conditions"] if one["type"] == kind)
        return found["status"], found.get("reason", "")
