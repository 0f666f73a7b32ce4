"""Random faults in a cluster in virtual time while Jobs run (`virtual_cluster`).

    report = asyncio.run(run(Plan(seed=7), folder))

The seed determines the faults and, because nothing runs in real time, also their effects. After the faults everything
is repaired, all Jobs must complete, and the invariants are checked: nothing lost, no pod run twice, no node oversold,
no watch event missed.
"""

import asyncio
import concurrent.futures
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rota.api import errors, keys, meta, users
from rota.api.users import User
from rota.client.pods import PODS
from rota.client.transports.retries import RetryingTransport
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.virtual_cluster import Cluster
from rota.testing.virtual_machines import Machine

JOBS: Final = ("batch", "v1", "jobs")
NAMESPACE: Final = "default"
#: Pods of a node that is not ready are evicted after this time.
TOLERATED_S: Final = 6
_STEP_S: Final = 1.0
#: How long Jobs may take after all faults are repaired, in virtual time.
_PATIENCE_S: Final = 900.0
_Act = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a cluster, its work, and the faults."""

    seed: int
    masters: int = 2
    workers: int = 3
    jobs: int = 4
    pods_per_job: int = 3
    #: How long faults are injected, and the pause between two of them.
    seconds: float = 60.0
    pause_s: tuple[float, float] = (1.0, 8.0)
    fault_s: tuple[float, float] = (0.5, 25.0)


@dataclass(slots=True)
class Report:
    """What happened, and what must not happen."""

    faults: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    pods: int = 0
    watch_events: int = 0


class _Inline(concurrent.futures.ThreadPoolExecutor):
    """Runs calls of `asyncio.to_thread` at once, so that the order of everything depends on the seed alone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as problem:  # noqa: BLE001 - it belongs to the caller
            done.set_exception(problem)
        return done


class _Watcher:
    """A client that watches pods through the masters and resumes where it was."""

    def __init__(self, client: Client, machine: Machine) -> None:
        self._client: Final = client
        self._machine: Final = machine
        #: Of each event, in the order of arrival.
        self.revisions: Final[list[int]] = []
        self.gaps = 0

    async def run(self) -> None:
        """Watch until cancelled, from the beginning of history."""
        revision = "1"
        while True:
            try:
                async with self._client.watch(PODS, resource_version=revision, bookmarks=False, timeout_s=30) as events:
                    async for event in events:
                        revision = str(event.object["metadata"]["resourceVersion"])
                        self.revisions.append(int(revision))
            except errors.Expired:
                self.gaps += 1
                revision = "1"
                await self._machine.sleep(1.0)
            except (errors.ApiError, TransportError):
                await self._machine.sleep(0.25)


async def run(plan: Plan, folder: Path) -> Report:
    """Run a plan; the report has no violations if everything held."""
    asyncio.get_running_loop().set_default_executor(_Inline())
    report = Report()
    cluster = Cluster(folder, seed=plan.seed, masters=plan.masters, workers=plan.workers)
    for program in cluster.programs.values():
        program.start()
    outside = Machine("outside", cluster.base)
    admin = User(name="admin", groups=(users.MASTERS, users.AUTHENTICATED))
    client, transport = cluster.client(outside, admin)
    watcher = _Watcher(client, outside)
    watching = asyncio.ensure_future(watcher.run())
    observer = AllocationObserver()
    async with contextlib.AsyncExitStack() as parts:
        parts.push_async_callback(_ended, cluster, watching, transport)
        following = observer.following(client, clock=outside, rng=cluster.rng_of("observer"))
        await _through(cluster, following.__aenter__())
        parts.push_async_callback(_through, cluster, following.__aexit__(None, None, None))
        creating = asyncio.ensure_future(_create(client, outside, plan))
        await _inject(cluster, plan, report)
        done = await _completed(cluster, plan, client, creating)
        await cluster.base.advance(5.0)
        jobs = await _through(cluster, _listed(client, JOBS)) or []
        pods = await _through(cluster, _listed(client, PODS)) or []
        outcome = _Outcome(cluster, plan, jobs, pods, watcher, observer)
        report.violations.extend(outcome.violations(completed=done))
        report.pods, report.watch_events = len(outcome.starts()), len(watcher.revisions)
    return report


async def _ended(cluster: Cluster, watching: "asyncio.Future[None]", transport: RetryingTransport) -> None:
    watching.cancel()

    async def end() -> None:
        await asyncio.wait([watching])
        await asyncio.gather(*(one.kill() for one in cluster.programs.values()))
        await transport.close()

    await _through(cluster, end())


async def _through(cluster: Cluster, work: Awaitable[Any]) -> Any:
    """The result of work that needs time to pass."""
    running = asyncio.ensure_future(work)
    while not running.done():
        await cluster.base.advance(_STEP_S)
    return running.result()


async def _create(client: Client, outside: Machine, plan: Plan) -> None:
    for number in range(plan.jobs):
        job = _job(f"job-{number}", plan, seconds=2.0 + 5.0 * number)
        while True:
            try:
                await client.create(JOBS, job)
            except errors.AlreadyExists:
                break
            except (errors.ApiError, TransportError):
                await outside.sleep(0.5)
            else:
                break
        await outside.sleep(plan.seconds / plan.jobs / 2)


def _job(name: str, plan: Plan, *, seconds: float) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "virtual",
        "command": ["work", f"{seconds:g}"],
        "resources": {"requests": {"cpu": "1500m"}},
    }
    tolerations = [
        {
            "key": f"node.kubernetes.io/{why}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATED_S,
        }
        for why in ("not-ready", "unreachable")
    ]
    spec = {"restartPolicy": "Never", "containers": [container], "tolerations": tolerations}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "completions": plan.pods_per_job,
            "parallelism": plan.pods_per_job,
            "backoffLimit": 1000,
            "template": {"spec": spec},
        },
    }


async def _inject(cluster: Cluster, plan: Plan, report: Report) -> None:
    """Inject faults, several at a time, until the time is over; then repair all of them."""
    rng, base = cluster.rng, cluster.base
    #: Faults that last, with the time of their repair.
    lasting: dict[str, tuple[float, Fault]] = {}
    await base.advance(10.0)
    until = base.monotonic() + plan.seconds
    next_at = base.monotonic()
    while base.monotonic() < until:
        if base.monotonic() >= next_at:
            fault, duration = _fault(cluster, rng), rng.uniform(*plan.fault_s)
            if fault.subject not in lasting:
                lasting[fault.subject] = base.monotonic() + duration, fault
                report.faults.append(f"{base.monotonic():.1f} s: {fault.words} for {duration:.1f} s")
                await _through(cluster, fault.harm())
            next_at = base.monotonic() + rng.uniform(*plan.pause_s)
        await base.advance(_STEP_S)
        for subject, (at, fault) in tuple(lasting.items()):
            if at <= base.monotonic():
                del lasting[subject]
                await fault.heal()
    for _, fault in lasting.values():
        await fault.heal()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: what has it, its words, how it is injected and how it is repaired."""

    subject: str
    words: str
    harm: _Act
    heal: _Act


def _fault(cluster: Cluster, rng: random.Random) -> Fault:
    """One of all faults of a random machine and of the database."""
    machine = rng.choice((*cluster.masters, *cluster.workers))
    jump_s = rng.choice((-1.0, 1.0)) * rng.uniform(1.0, 400.0)
    found = [*_faults_of(cluster, machine, jump_s), *_faults_of_database(cluster)]
    return rng.choice(found)


def _faults_of(cluster: Cluster, machine: Machine, jump_s: float) -> Sequence[Fault]:
    name, program = machine.name, cluster.programs[machine.name]

    async def start() -> None:
        program.start()

    async def power_off() -> None:
        await program.kill()
        cluster.runtimes[name].power_off()

    async def pause() -> None:
        machine.runs.clear()

    async def resume() -> None:
        machine.runs.set()

    async def cut() -> None:
        machine.cut = True
        for server, link in cluster.links:
            if server == name or link.is_from(machine):
                link.interrupt()

    async def connect() -> None:
        machine.cut = False

    async def jump() -> None:
        machine.jump(jump_s)

    made = [
        Fault(name, f"{name} killed", program.kill, start),
        Fault(name, f"{name} stopped", pause, resume),
        Fault(name, f"{name} cut off", cut, connect),
        Fault(f"clock of {name}", f"clock of {name} set by {jump_s:.0f} s", jump, _nothing),
    ]
    if name in cluster.runtimes:
        made.append(Fault(name, f"{name} without power", power_off, start))
    return made


def _faults_of_database(cluster: Cluster) -> Sequence[Fault]:
    store = cluster.store

    def setting(**values: bool) -> _Act:
        async def act() -> None:
            for name, value in values.items():
                setattr(store, name, value)

        return act

    return (
        Fault("disk", "disk of the database full", setting(full=True), setting(full=False)),
        Fault("database", "database down", setting(up=False), setting(up=True)),
        Fault("answers", "answers of commits lost", setting(loses_answers=True), setting(loses_answers=False)),
    )


async def _nothing() -> None:
    """The repair of a fault that lasts."""


async def _completed(cluster: Cluster, plan: Plan, client: Client, creating: "asyncio.Future[None]") -> bool:
    """Whether all Jobs completed in time."""
    deadline = cluster.base.monotonic() + _PATIENCE_S
    while cluster.base.monotonic() < deadline:
        await cluster.base.advance(5.0)
        if not creating.done():
            continue
        found = await _through(cluster, _listed(client, JOBS))
        if found is not None and len(found) == plan.jobs and all(map(_complete, found)):
            return True
    return False


async def _listed(client: Client, target: tuple[str, str, str]) -> list[Mapping[str, Any]] | None:
    try:
        return list((await client.list(target, namespace=NAMESPACE)).items)
    except (errors.ApiError, TransportError):
        return None


def _complete(job: Mapping[str, Any]) -> bool:
    return meta.is_condition_true(job, "Complete")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The cluster after all faults, and what was observed."""

    cluster: Cluster
    plan: Plan
    jobs: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]
    watcher: _Watcher
    observer: AllocationObserver

    def violations(self, *, completed: bool) -> Iterator[str]:
        """Everything that must not be."""
        for name, program in self.cluster.programs.items():
            if (problem := program.problem()) is not None:
                yield f"{name} ended by itself: {problem!r}"
        yield from self._of_jobs(completed=completed)
        yield from self._of_runs()
        yield from (f"oversold: {one}" for one in self.observer.violations)
        yield from self._of_watch()

    def _of_jobs(self, *, completed: bool) -> Iterator[str]:
        if not completed:
            yield f"lost: not all Jobs completed: {[(meta.name(one), one.get('status')) for one in self.jobs]}"
            return
        for job in self.jobs:
            succeeded = (job.get("status") or {}).get("succeeded", 0)
            if succeeded != self.plan.pods_per_job:
                yield f"lost: {meta.name(job)} has {succeeded} successes of {self.plan.pods_per_job}"

    def _of_runs(self) -> Iterator[str]:
        ended = {uid for runtime in self.cluster.runtimes.values() for uid in runtime.succeeded}
        for uid, runs in self.starts().items():
            if len(runs) > 1:
                yield f"run twice: {uid}: {runs}"
        for pod in self.pods:
            if (pod.get("status") or {}).get("phase") == "Succeeded" and meta.uid(pod) not in ended:
                yield f"lost: {meta.name(pod)} is said to have succeeded and has not"

    def starts(self) -> dict[str, list[str]]:
        """The starts of every pod on all machines."""
        found: dict[str, list[str]] = {}
        for runtime in self.cluster.runtimes.values():
            for uid, runs in runtime.starts.items():
                found.setdefault(uid, []).extend(runs)
        return found

    def _of_watch(self) -> Iterator[str]:
        """The database's own log has the events that a watch must show, each once and in order."""
        log = self.cluster.store.database.log
        expected = sorted(revision for revision, key in log if keys.split(key).plural == "pods")
        seen, gaps = self.watcher.revisions, self.watcher.gaps
        if gaps or seen != expected:
            missed, twice = Counter(expected) - Counter(seen), Counter(seen) - Counter(expected)
            yield f"missed watch events: {[*missed][:10]}; twice: {[*twice][:10]}; {gaps} gaps; of {len(expected)}"
