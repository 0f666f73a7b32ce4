"""Hundreds of tasks with side effects that run while faults are injected, and the invariants that they must satisfy.

    workload = ChaosWorkload(client, folder, tasks)
    async with workload.running():
        ...                                 # kill, cut, restart
        await workload.reach(1.0, patience_s=60)
    workload.check()

Each task has attempts; an attempt is a pod name, and each pod that ever had this name is a separate submission, by
its uid. The next attempt is made only after a disruption, as controllers do. A create without a response is repeated
with the same name, so there are never two pods at once; but the first pod may have been created, evicted and deleted
in between, and then the second one is another submission. So every run of a container writes to a file of its pod's
uid, and holds a lock of its attempt while it runs: the runs are known from the tasks themselves, the fate of a pod
from a gap-free watch (`timelines`), and neither is inferred from a list.
"""

import asyncio
import contextlib
import enum
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rota.api import errors, meta, resources
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import system
from rota.testing.timelines import NODES, PODS, Seen, Timeline

__all__ = ["NODES", "PODS", "TOLERATIONS", "ChaosWorkload", "Kind", "Task", "TooSlow"]
_NAMESPACE: Final = "default"
_FINISHED: Final = ("Succeeded", "Failed")
_LOOK_S: Final = 0.25
_AT_ONCE: Final = 16
#: Tasks of which none is finished for this long do not go on; a fault lasts 20 s at most.
_STUCK_S: Final = 60.0
#: How many pods a failure report describes in full.
_TOLD: Final = 5
#: The tolerations for lost nodes.
TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{one}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for one in ("not-ready", "unreachable")
]


class TooSlow(AssertionError):
    """Tasks were still being finished when the time was over: nothing was lost, doubled or oversold until then."""


class Kind(enum.Enum):
    """What a task does without faults."""

    #: Runs once and succeeds.
    SUCCEEDS = "succeeds"
    #: Runs once and fails without a retry.
    FAILS = "fails"
    #: Fails at first and is restarted on its node by its restart policy.
    RETRIES = "retries"


@dataclass(slots=True, kw_only=True)
class Task:
    """One task and its progress."""

    name: str
    kind: Kind
    seconds: float
    attempt: int = 0
    outcome: str = ""
    #: The uid of the pod with the outcome.
    uid: str = ""
    disruptions: int = 0

    @property
    def pod(self) -> str:
        """The name of the active attempt."""
        return f"{self.name}-{self.attempt}"


@dataclass(slots=True)
class Findings:
    """Violations, with the pod of each."""

    problems: dict[str, str] = field(default_factory=dict)

    def add(self, problem: str, *, pod: str = "") -> None:
        """Record a violation once."""
        self.problems.setdefault(problem, pod)


class ChaosWorkload:
    """The tasks and their state."""

    def __init__(self, client: Client, folder: Path, tasks: Sequence[Task], *, milli_cpu: int = 500) -> None:
        (folder / "locks").mkdir(parents=True)
        self._client: Final = client.with_settings(timeout_s=5.0)
        self._folder: Final = folder
        self._milli_cpu: Final = milli_cpu
        self.tasks: Final = list(tasks)
        self.findings: Final = Findings()
        self._clock: Final = system.SystemClock()
        self.timeline: Final = Timeline(client, namespace=_NAMESPACE, clock=self._clock)
        self._seats: Final = asyncio.Semaphore(_AT_ONCE)
        #: When a task was last finished.
        self._progress_at = 0.0

    @property
    def finished(self) -> int:
        """How many tasks are finished."""
        return sum(bool(one.outcome) for one in self.tasks)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Submit, watch and submit again for as long as the block lasts."""
        async with self.timeline.running():
            work = asyncio.create_task(self._run())
            try:
                yield
            finally:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work

    async def reach(self, share: float, *, patience_s: float) -> None:
        """Wait until a fraction of the tasks is finished; AssertionError with the remaining ones after a timeout."""
        self._progress_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(patience_s):
                while self.finished < share * len(self.tasks):
                    await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            raise self._overdue() from None

    def _overdue(self) -> AssertionError:
        """Violations so far, or tasks that do not go on, or `TooSlow` if they do."""
        idle_s = self._clock.monotonic() - self._progress_at
        self._check_all([one for one in self.tasks if one.outcome])
        slow = not self.findings.problems and idle_s < _STUCK_S
        left = [one.pod for one in self.tasks if not one.outcome]
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        self.findings.add(
            f"{len(left)} tasks are not done, such as {left[:5]}; the last one ended {idle_s:.0f} s ago; load {load}",
            pod=left[0],
        )
        return TooSlow(self._report()) if slow else AssertionError(self._report())

    def check(self) -> None:
        """Raise AssertionError if an invariant was violated."""
        self._check_all(self.tasks)
        assert not self.findings.problems, self._report()

    def _check_all(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._check(task)
        twice = self._folder / "twice"
        if twice.exists():
            self.findings.add(f"ran twice at the same time: {sorted(set(twice.read_text().split()))}")

    def _report(self) -> str:
        """All violations, and the history of the first affected pods and their nodes."""
        pods = list(dict.fromkeys(filter(None, self.findings.problems.values())))[:_TOLD]
        stories = (f"\n--- {pod}\n{self.timeline.about(pod)}" for pod in pods)
        return "\n".join([*self.findings.problems, *stories])

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(errors.ApiError, TransportError):
                await self._look()
            await self._clock.sleep(_LOOK_S)

    async def _look(self) -> None:
        async with asyncio.TaskGroup() as group:
            for task in self.tasks:
                if not task.outcome:
                    group.create_task(self._advance(task))
        pods = (await self._client.list(PODS, namespace=_NAMESPACE)).items
        self._check_nodes(pods, (await self._client.list(NODES)).items)

    async def _advance(self, task: Task) -> None:
        submissions = self.timeline.named(task.pod)
        if not submissions:
            await self._submit(task)
            return
        last = submissions[-1]
        if last.phase in _FINISHED and not meta.is_condition_true(last.last, "DisruptionTarget"):
            self._finished(task, last)
        elif last.gone or last.phase in _FINISHED:
            self._disrupted(task)

    def _finished(self, task: Task, last: Seen) -> None:
        task.outcome, task.uid = last.phase, last.uid
        self._progress_at = self._clock.monotonic()
        if last.phase == "Failed" and task.kind is not Kind.FAILS:
            self.findings.add(
                f"{task.pod} failed, and nothing says that it was disrupted: {last.last['status']}", pod=task.pod
            )

    def _disrupted(self, task: Task) -> None:
        task.disruptions += 1
        task.attempt += 1

    async def _submit(self, task: Task) -> None:
        async with self._seats:
            # Without a response the outcome is unknown: the watch shows it, or the next create is refused.
            with contextlib.suppress(errors.ApiError, TransportError):
                self.timeline.created(await self._client.create(PODS, self._manifest(task)))

    def _manifest(self, task: Task) -> dict[str, Any]:
        marks = f"{self._folder / task.pod}.$POD_UID"
        end = {
            Kind.SUCCEEDS: "exit 0",
            Kind.FAILS: "exit 3",
            Kind.RETRIES: f"[ $(grep -c begin {marks}) -ge 2 ]",
        }[task.kind]
        script = (
            f"exec 9>>{self._folder}/locks/{task.pod}; flock -n 9 || echo {task.pod} >> {self._folder}/twice; "
            f"echo begin >> {marks}; sleep {task.seconds:.2f}; echo end >> {marks}; {end}"
        )
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", script],
            "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
            "resources": {"requests": {"cpu": f"{self._milli_cpu}m"}},
        }
        spec = {
            "restartPolicy": "OnFailure" if task.kind is Kind.RETRIES else "Never",
            "terminationGracePeriodSeconds": 1,
            "tolerations": TOLERATIONS,
            "containers": [container],
        }
        metadata = {"name": task.pod, "namespace": _NAMESPACE}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _check_nodes(self, pods: Sequence[Object], nodes: Sequence[Object]) -> None:
        """Check that no node is overcommitted."""
        used: Counter[str] = Counter()
        for pod in pods:
            node = (pod.get("spec") or {}).get("nodeName")
            if node and (pod.get("status") or {}).get("phase") not in _FINISHED:
                used[node] += resources.pod_requests(pod).get(resources.CPU, 0)
        for one in nodes:
            has = resources.node_allocatable(one).get(resources.CPU, 0)
            if used[meta.name(one)] > has:
                self.findings.add(f"{meta.name(one)} was sold {used[meta.name(one)]}m of {has}m")

    def _check(self, task: Task) -> None:
        if not task.outcome:
            self.findings.add(f"{task.name} was lost", pod=task.pod)
        for attempt in range(task.attempt + 1):
            pod = f"{task.name}-{attempt}"
            known = {one.uid for one in self.timeline.named(pod)}
            for marks in self._folder.glob(f"{pod}.*"):
                said = Counter(marks.read_text().split())
                if task.kind is not Kind.RETRIES and said["begin"] > 1:
                    self.findings.add(f"{marks.name} was run {said['begin']} times and may be run once", pod=pod)
                if marks.suffix[1:] not in known and not self.timeline.gaps:
                    self.findings.add(f"{marks.name} ran, and no server has ever shown such a pod", pod=pod)
        if task.outcome:
            self._check_end(task)

    def _check_end(self, task: Task) -> None:
        """Check that the pod with the outcome has run to its end."""
        marks = self._folder / f"{task.pod}.{task.uid}"
        said = Counter(marks.read_text().split()) if marks.exists() else Counter[str]()
        if not said["end"]:
            self.findings.add(f"{marks.name} is {task.outcome} and did not come to its end", pod=task.pod)
        if task.kind is Kind.RETRIES and task.outcome == "Succeeded" and said["begin"] < 2:
            self.findings.add(f"{marks.name} succeeded though its first run fails", pod=task.pod)
