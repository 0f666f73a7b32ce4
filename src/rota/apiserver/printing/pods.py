"""Pods: the status column from the phase, the conditions and the states of the containers.

The status is the most specific of these, later ones winning: the phase, the reason of the status, a scheduling gate,
the state of the first unfinished init container, that of the first container that is not plainly running, and the
deletion. Order and wording follow kube-apiserver's printer (1.36).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import times
from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations, texts
from rota.apiserver.printing.columns import (
    NONE,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    holds,
    items,
    name,
    terminating,
)

_UNREACHABLE: Final = "NodeLost"
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class _Tally:
    """Sums over the containers."""

    word: str
    ready: int = 0
    restarts: int = 0
    #: When a container last ended and was restarted; seconds since 1970.
    last_restart: float | None = None

    def count(self, status: Mapping[str, Any]) -> None:
        """Add the restarts of a container."""
        self.restarts += status.get("restartCount") or 0
        finished = at(status, "lastState", "terminated", "finishedAt")
        if finished:
            self.last_restart = max(times.parse(finished), self.last_restart or float("-inf"))

    def text(self, now: float) -> str:
        """The restarts, and how long ago the last one was."""
        if not self.restarts or self.last_restart is None:
            return str(self.restarts)
        return f"{self.restarts} ({durations.human(now - self.last_restart)} ago)"


def _pod(pod: Object, now: float) -> Cells:
    sidecars = {one.get("name") for one in items(pod, "spec", "initContainers") if one.get("restartPolicy") == "Always"}
    before = _Tally(word=_first_word(pod))
    with_sidecars = _Tally(word="")
    initializing = _initialize(pod, sidecars, before=before, with_sidecars=with_sidecars)
    if initializing and not holds(pod, "Initialized"):
        tally = before
    else:
        # finished init containers do not count; sidecars, which keep running, do
        tally = with_sidecars
        tally.word, tally.ready = before.word, before.ready
        _run(pod, tally)
    total = len(items(pod, "spec", "containers")) + len(sidecars)
    return [
        name(pod),
        f"{tally.ready}/{total}",
        _last_word(pod, tally.word),
        tally.text(now),
        age(pod, now),
        next((one.get("ip") for one in items(pod, "status", "podIPs")), None) or NONE,
        at(pod, "spec", "nodeName") or NONE,
        at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def _first_word(pod: Object) -> str:
    scheduled = (one for one in items(pod, "status", "conditions") if one.get("type") == "PodScheduled")
    if any(one.get("reason") == "SchedulingGated" for one in scheduled):
        return "SchedulingGated"
    return at(pod, "status", "reason") or at(pod, "status", "phase") or ""


def _initialize(pod: Object, sidecars: set[str | None], *, before: _Tally, with_sidecars: _Tally) -> bool:
    """Process the init containers up to the first unfinished one; returns whether there is one."""
    for position, status in enumerate(items(pod, "status", "initContainerStatuses")):
        before.count(status)
        sidecar = status.get("name") in sidecars
        if sidecar:
            with_sidecars.count(status)
        terminated = at(status, "state", "terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            before.ready += bool(status.get("ready"))
            continue
        waiting = at(status, "state", "waiting", "reason")
        if terminated is not None:
            before.word = f"Init:{_ended(terminated)}"
        elif waiting and waiting != "PodInitializing":
            before.word = f"Init:{waiting}"
        else:
            before.word = f"Init:{position}/{len(items(pod, 'spec', 'initContainers'))}"
        return True
    return False


def _run(pod: Object, tally: _Tally) -> None:
    """Process the containers, the last one first, so that the first one determines the status."""
    running, failure = False, ""
    for status in reversed(items(pod, "status", "containerStatuses")):
        tally.count(status)
        terminated = at(status, "state", "terminated")
        waiting = at(status, "state", "waiting", "reason")
        if waiting:
            tally.word = waiting
        elif terminated is not None:
            tally.word = _ended(terminated)
            if terminated.get("exitCode"):
                failure = tally.word
        elif status.get("ready") and at(status, "state", "running") is not None:
            running = True
            tally.ready += 1
    if tally.word == "Completed":
        if running and any(
            one.get("type") == "Ready" and one.get("status") == "True" for one in items(pod, "status", "conditions")
        ):
            tally.word = "Running"
        elif failure:
            tally.word = failure
        elif running:
            tally.word = "NotReady"


def _ended(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _last_word(pod: Object, word: str) -> str:
    if not terminating(pod):
        return word
    if at(pod, "status", "reason") == _UNREACHABLE:
        return "Unknown"
    return word if at(pod, "status", "phase") in _TERMINAL else "Terminating"


def _readiness_gates(pod: Object) -> str:
    gates = items(pod, "spec", "readinessGates")
    open_gates = sum(holds(pod, gate.get("conditionType") or "") for gate in gates)
    return f"{open_gates}/{len(gates)}" if gates else NONE


_COMPLETED: Final = {
    "Succeeded": "The pod ran to its end and succeeded.",
    "Failed": "The pod ended in failure.",
}


def _pod_conditions(pod: Object) -> list[dict[str, Any]]:
    phase = at(pod, "status", "phase")
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


def _pod_template(obj: Object, now: float) -> Cells:
    template = at(obj, "template")
    return [name(obj), *texts.containers(template), texts.labels(at(template, "metadata", "labels"))]


PRINTERS: Final[Printers] = {
    GroupResource("", "pods"): Printer(
        columns=columns("""
            Name            | string name | The name of the pod.
            Ready           | string      | How many containers are ready, of how many.
            Status          | string      | What the pod is doing, in one word.
            Restarts        | string      | How often containers were started again, and when this last happened.
            Age             | string      | How long the pod has existed.
            IP              | string wide | The first address of the pod.
            Node            | string wide | The node that the pod is bound to.
            Nominated Node  | string wide | The node on which room is being made for the pod.
            Readiness Gates | string wide | How many readiness gates are open, of how many.
        """),
        cells=_pod,
        conditions=_pod_conditions,
    ),
    GroupResource("", "podtemplates"): Printer(
        columns=columns("""
            Name       | string name | The name of the template.
            Containers | string      | The names of the containers.
            Images     | string      | The images of the containers.
            Pod Labels | string      | The labels of pods made from the template.
        """),
        cells=_pod_template,
    ),
}
