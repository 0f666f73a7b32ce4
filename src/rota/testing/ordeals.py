"""Hundreds of tasks with side effects, run while a cluster is being hurt, and what must hold of them all the same.

    ordeal = Ordeal(client, folder, tasks)
    async with ordeal.running():
        ...                                 # kill, cut, restart
        await ordeal.done()
    ordeal.check()

A task is somebody's work; an attempt at it is a pod. Whoever wants the work makes the next attempt when one was
disrupted, and only then: that is what controllers do, and no more is done here. Every run of a container leaves its
marks in files and holds a lock while it lives, so that what happened is known from the tasks themselves and not from
what the cluster says.
"""

import asyncio
import contextlib
import enum
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rota.api import errors, meta, resources
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client, Object
from rota.kit import system

PODS: Final = ("", "v1", "pods")
NODES: Final = ("", "v1", "nodes")
_NAMESPACE: Final = "default"
_FINISHED: Final = ("Succeeded", "Failed")
_LOOK_S: Final = 0.25
_AT_ONCE: Final = 16
#: Who leaves a node that is lost, and how soon.
TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{one}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for one in ("not-ready", "unreachable")
]


class Kind(enum.Enum):
    """What a task does when it is left alone."""

    #: Runs once and succeeds.
    SUCCEEDS = "succeeds"
    #: Runs once and fails: nobody tries it again.
    FAILS = "fails"
    #: Fails at first and is run again where it is, by its restart policy.
    RETRIES = "retries"


@dataclass(slots=True, kw_only=True)
class Task:
    """One piece of work, and how far it has come."""

    name: str
    kind: Kind
    seconds: float
    attempt: int = 0
    #: Whether the attempt under way was seen in the API: one that is not there any more was taken away.
    seen: bool = False
    outcome: str = ""
    disruptions: int = 0

    @property
    def pod(self) -> str:
        """The name of the attempt under way."""
        return f"{self.name}-{self.attempt}"


@dataclass(slots=True)
class Findings:
    """What must not be."""

    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        """Note it once."""
        if problem not in self.problems:
            self.problems.append(problem)


class Ordeal:
    """Tasks on their way through."""

    def __init__(self, client: Client, folder: Path, tasks: Sequence[Task], *, milli_cpu: int = 500) -> None:
        folder.mkdir(parents=True)
        self._client: Final = client.with_settings(timeout_s=5.0)
        self._folder: Final = folder
        self._milli_cpu: Final = milli_cpu
        self.tasks: Final = list(tasks)
        self.findings: Final = Findings()
        self._clock: Final = system.SystemClock()
        self._seats: Final = asyncio.Semaphore(_AT_ONCE)

    @property
    def finished(self) -> int:
        """How many tasks are over."""
        return sum(bool(one.outcome) for one in self.tasks)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Submit, watch and submit again for as long as the block lasts."""
        work = asyncio.create_task(self._run())
        try:
            yield
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def reach(self, share: float, *, patience_s: float) -> None:
        """Until so much of the work is done; AssertionError with what is not if that takes too long."""
        try:
            async with asyncio.timeout(patience_s):
                while self.finished < share * len(self.tasks):
                    await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            left = [one.pod for one in self.tasks if not one.outcome]
            raise AssertionError(f"{len(left)} tasks are not done, such as {left[:5]}: {self.findings}") from None

    def check(self) -> None:
        """AssertionError if anything happened that must not."""
        for task in self.tasks:
            self._check(task)
        twice = self._folder / "twice"
        if twice.exists():
            self.findings.add(f"ran twice at the same time: {sorted(set(twice.read_text().split()))}")
        assert not self.findings.problems, "\n".join(self.findings.problems)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(errors.ApiError, TransportError):
                await self._look()
            await self._clock.sleep(_LOOK_S)

    async def _look(self) -> None:
        pods = {meta.name(one): one for one in (await self._client.list(PODS, namespace=_NAMESPACE)).items}
        nodes = (await self._client.list(NODES)).items
        self._check_nodes(list(pods.values()), nodes)
        async with asyncio.TaskGroup() as group:
            for task in self.tasks:
                if not task.outcome:
                    group.create_task(self._advance(task, pods.get(task.pod)))

    async def _advance(self, task: Task, pod: Object | None) -> None:
        if pod is None:
            if task.seen:
                self._disrupted(task)
            await self._submit(task)
            return
        task.seen = True
        status = pod.get("status") or {}
        if status.get("phase") not in _FINISHED:
            return
        if meta.is_condition_true(pod, "DisruptionTarget"):
            self._disrupted(task)
        elif status["phase"] == "Succeeded" or task.kind is Kind.FAILS:
            task.outcome = status["phase"]
        else:
            self.findings.add(f"{task.pod} failed, and nothing says that it was disrupted: {status}")
            task.outcome = "Failed"

    def _disrupted(self, task: Task) -> None:
        task.disruptions += 1
        task.attempt += 1
        task.seen = False

    async def _submit(self, task: Task) -> None:
        async with self._seats:
            # Whether it arrived is seen at the next look.
            with contextlib.suppress(errors.ApiError, TransportError):
                await self._client.create(PODS, self._manifest(task))

    def _manifest(self, task: Task) -> dict[str, Any]:
        marks = self._folder / task.pod
        end = {
            Kind.SUCCEEDS: "exit 0",
            Kind.FAILS: "exit 3",
            Kind.RETRIES: f"[ $(grep -c begin {marks}) -ge 2 ]",
        }[task.kind]
        script = (
            f"exec 9>>{marks}.lock; flock -n 9 || echo {task.pod} >> {self._folder}/twice; "
            f"echo begin >> {marks}; sleep {task.seconds:.2f}; echo end >> {marks}; {end}"
        )
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", script],
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
        """No node has more on it than it has."""
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
            self.findings.add(f"{task.name} was lost")
        for attempt in range(task.attempt + 1):
            marks = self._folder / f"{task.name}-{attempt}"
            said = Counter(marks.read_text().split()) if marks.exists() else Counter[str]()
            last = attempt == task.attempt
            if task.kind is not Kind.RETRIES and said["begin"] > 1:
                self.findings.add(f"{marks.name} was run {said['begin']} times and may be run once")
            if last and task.outcome and not said["end"]:
                self.findings.add(f"{marks.name} is {task.outcome} and did not come to its end")
            if last and task.kind is Kind.RETRIES and task.outcome == "Succeeded" and said["begin"] < 2:
                self.findings.add(f"{marks.name} succeeded though its first run fails")
