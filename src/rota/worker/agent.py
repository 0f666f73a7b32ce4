"""The agent: turns changes in the API and the runtime into events of the pod machine, and carries out its instructions.

A pod arrives by the watch, or earlier by a dispatch of the leader (`offer`). A dispatched pod is accepted only if the
watch cannot have shown it before: pods that are here already, or were deleted, are left to the watch. If the watch does
not show a dispatched pod soon, the pod is looked up, and dropped if the API does not have it.

Every event goes through one queue, so the pod machine sees one history. Instructions for one container are carried out
in order; different containers do not wait for each other.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import codec, errors, meta
from rota.client.events.recorder import EventRecorder
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.worker import container_checks, container_config, pod_metrics, storage, termination_message, volumes
from rota.worker.checkpoint import Checkpoint
from rota.worker.container_checks import ContainerChecks
from rota.worker.devices import Devices
from rota.worker.host_resources import HostResources as Hardware
from rota.worker.pod_machine import machine_events
from rota.worker.pod_machine.machine_events import Event, FoundRun, Instruction
from rota.worker.pod_machine.pod_manager import PodMachine
from rota.worker.references import References
from rota.worker.runtimes.runtime_interface import (
    CONTAINER,
    Exit,
    Known,
    Launch,
    LaunchError,
    Runtime,
    parse_run_id,
    run_id,
)
from rota.worker.services import hosts
from rota.worker.services.network import ServiceNetwork
from rota.worker.status_reporter import StatusReporter
from rota.worker.usage import folder_size
from rota.worker.workspaces import Workspaces

log = logs.get(__name__)

PODS: Final = ("", "v1", "pods")
#: How often files made from API objects are refreshed; the kubelet's interval.
_REFRESH_S: Final = 60.0
#: How long the watch may take to show a dispatched pod.
_SHOWN_S: Final = 3.0
#: How many deleted pods are remembered, to recognise a late dispatch.
_GONE: Final = 10_000
#: How often the disk usage of pods is checked.
_STORAGE_S: Final = 10.0


class Agent:
    """Runs the pods of one node."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        hardware: Hardware,
        *,
        folder: Path,
        references: References,
        recorder: EventRecorder,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        offers_after_s: float = 0.0,
        services: ServiceNetwork | None = None,
    ) -> None:
        """Dispatched pods are accepted after this many seconds of watching; a dispatch of a pod that a former agent
        removed has arrived by then."""
        metrics = metrics or Metrics("worker")
        self._offers_after_s: Final = offers_after_s
        self._services: Final = services
        self._takes_offers = False
        self._client: Final = client
        self._runtime: Final = runtime
        self._hardware: Final = hardware
        self._references: Final = references
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._rng: Final = rng
        self._folder: Final = folder
        self._checkpoint: Checkpoint
        self._devices: Devices
        self._volumes: Final = folder / "volumes"
        self.machine: Final = PodMachine(
            allocatable={**hardware.allocatable, **hardware.sold}, address=hardware.address
        )
        self._events: Final[asyncio.Queue[Event]] = asyncio.Queue()
        #: The last task of a container, which the next one waits for.
        self._lanes: Final[dict[tuple[str, str], asyncio.Task[None]]] = {}
        self._launches: Final[dict[str, Launch]] = {}
        self._checks: Final = ContainerChecks(
            self.machine,
            runtime,
            address=hardware.address,
            launch_of=self.launch_of,
            happened=self._happened,
            spawn=self._spawn,
            clock=clock,
        )
        #: Every run of which data is kept, by pod.
        self._runs: Final[dict[str, set[str]]] = {}
        self._background: Final[set[asyncio.Task[None]]] = set()
        self._reporter: Final = StatusReporter(client, self._seen, clock=clock, rng=rng)
        self._pods: Final = Informer[Object](
            Source(client=client, target=PODS, selection=Selection(fields=f"spec.nodeName={hardware.node}")),
            decode=codec.decode,
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        self._pods.add_handler(self._changed)
        self._workspaces: Final = Workspaces(client, folder / "workspaces", pods=self._all_pods, clock=clock)
        #: Dispatched pods that the watch has not shown yet.
        self._offered: Final[set[str]] = set()
        self._gone: Final[dict[str, None]] = {}
        pod_metrics.export(metrics, self.machine)

    async def run(self) -> None:
        """Work until cancelled; containers go on running."""
        known = await self._runtime.open(self._exited)
        rows = {"allocatable": self._hardware.allocatable, "first": self._hardware.first_devices}
        with (
            contextlib.closing(Checkpoint(self._folder / "pods.ledger")) as self._checkpoint,
            contextlib.closing(Devices(self._folder / "devices.ledger", **rows)) as self._devices,
        ):
            self._devices.keep(meta.uid(pod) for pod in self._checkpoint.pods())
            await self._adopt(known)
            await self._work()

    async def _work(self) -> None:
        async with tasks.Supervisor("worker", clock=self._clock, rng=self._rng) as running:
            running.start("pods", self._pods.run)
            running.start("sync", self._sync)
            running.start("machine", self._loop)
            running.start("statuses", self._reporter.run)
            running.start("files", self._keep_files_fresh)
            running.start("storage", self._watch_storage)
            running.start("workspaces", self._keep_workspaces)
            running.start("runtime", self._watch_runtime, on_crash=tasks.OnCrash.FAIL)
            try:
                await running.wait()
            finally:
                for task in tuple(self._background):
                    task.cancel()

    async def _watch_runtime(self) -> None:
        """An agent without its runtime is useless: it ends, and the worker makes another."""
        await self._runtime.lost()
        raise RuntimeError("the runtime has failed")

    # --- events -------------------------------------------------------------------------------------------------------

    def offer(self, pod: Object) -> str:
        """Accept a pod that was just bound to this node; returns an empty string, or the reason why it was not
        accepted.

        The caller need not act on a refusal: the watch brings the pod.
        """
        uid = meta.uid(pod)
        if not uid or pod["spec"].get("nodeName") != self._hardware.node:
            return "it is not bound to this node"
        if not self._takes_offers or self._pods.lag_s:
            return "the watch is behind, so that it cannot be told what is new"
        shown = self._pods.cache.get(meta.name(pod), meta.namespace(pod))
        if uid in self._offered or self.machine.pod(uid) is not None or (shown is not None and meta.uid(shown) == uid):
            return "it is here"
        if uid in self._gone or meta.is_deleting(pod):
            return "it is gone"
        self._offered.add(uid)
        self._happened(machine_events.PodSeen(now=self._clock.now(), pod=dict(pod)))
        self._spawn(functools.partial(self._look_up, uid, meta.name(pod), meta.namespace(pod)))
        return ""

    async def _look_up(self, uid: str, name: str, namespace: str) -> None:
        """Check that the API has a dispatched pod."""
        while True:
            await self._clock.sleep(_SHOWN_S)
            if uid not in self._offered:
                return
            try:
                found = await self._client.get(PODS, name, namespace=namespace)
            except errors.NotFound:
                found = {}
            except (errors.ApiError, TransportError) as problem:
                log.info("a pod that was offered cannot be read", pod=name, error=problem)
                continue
            if meta.uid(found) != uid or found["spec"].get("nodeName") != self._hardware.node:
                self._offered.discard(uid)
                self._happened(machine_events.PodGone(now=self._clock.now(), uid=uid))
                return

    def evict(self, uid: str, message: str) -> None:
        """Evict a pod; its status has the message."""
        self._happened(machine_events.Exceeded(now=self._clock.now(), uid=uid, message=message))

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._offered.discard(meta.uid(new))
            self._happened(machine_events.PodSeen(now=self._clock.now(), pod=dict(new)))
        elif old is not None:
            uid = meta.uid(old)
            self._gone[uid] = None
            if len(self._gone) > _GONE:
                del self._gone[next(iter(self._gone))]
            self._happened(machine_events.PodGone(now=self._clock.now(), uid=uid))

    def _exited(self, ended: Exit) -> None:
        uid, container, run = parse_run_id(ended.id)
        said = termination_message.read(self._volumes / uid, container, run)
        pod = self._seen(uid) if ended.code and not said else None
        if pod is not None and termination_message.wants_log(container_checks.container_of(pod, container)):
            self._spawn(functools.partial(self._exited_with_log, ended))
        else:
            self._tell_exit(ended, said)

    async def _exited_with_log(self, ended: Exit) -> None:
        uid, container, run = parse_run_id(ended.id)
        log_end = self._runtime.logs(uid, container, run, termination_message.LOG_END)
        self._tell_exit(ended, await termination_message.end_of(log_end))

    def _tell_exit(self, ended: Exit, message: str) -> None:
        uid, container, run = parse_run_id(ended.id)
        self._happened(
            machine_events.Exited(
                now=ended.finished_at or self._clock.now(),
                uid=uid,
                container=container,
                run=run,
                code=ended.code,
                signal=ended.signal,
                oom=ended.oom,
                lost=ended.lost,
                message=message,
            )
        )

    def _happened(self, event: Event) -> None:
        self._events.put_nowait(event)

    async def _adopt(self, known: Sequence[Known]) -> None:
        """Report the runs of earlier pods that were found to the pod machine."""
        runs: dict[str, dict[str, list[Known]]] = {}
        for one in sorted(known, key=lambda one: parse_run_id(one.id)[2]):
            uid, container, _ = parse_run_id(one.id)
            runs.setdefault(uid, {}).setdefault(container, []).append(one)
            self._runs.setdefault(uid, set()).add(one.id)
        for pod in self._checkpoint.pods():
            kept = [one for found in runs.get(meta.uid(pod), {}).values() for one in found[-2:]]
            adopted = [await self._found_run(pod, one) for one in kept]
            event = machine_events.Adopted(now=self._clock.now(), pod=pod, runs=tuple(adopted))
            self._carry_out(self.machine.handle(event))

    async def _found_run(self, pod: Object, one: Known) -> FoundRun:
        """A run of an earlier agent, with its termination message if it has ended."""
        uid, container, run = parse_run_id(one.id)
        found = FoundRun(container=container, run=run, id=one.id, started_at=one.started_at)
        ended = one.exit
        if ended is None:
            return found
        message = termination_message.read(self._volumes / uid, container, run)
        if not message and ended.code and termination_message.wants_log(container_checks.container_of(pod, container)):
            message = await termination_message.end_of(
                self._runtime.logs(uid, container, run, termination_message.LOG_END)
            )
        return msgspec.structs.replace(
            found,
            code=ended.code,
            signal=ended.signal,
            oom=ended.oom,
            lost=ended.lost,
            finished_at=ended.finished_at,
            message=message,
        )

    async def _sync(self) -> None:
        await self._pods.wait_synced()
        self._happened(machine_events.Synced(now=self._clock.now()))
        await self._clock.sleep(self._offers_after_s)
        self._takes_offers = True

    async def _loop(self) -> None:
        while True:
            wake = self.machine.wake_at()
            waiting = self._events.get()
            try:
                if wake is None:
                    event = await waiting
                else:
                    event = await self._clock.wait_for(waiting, max(wake - self._clock.now(), 0.0))
            except TimeoutError:
                event = machine_events.Tick(now=self._clock.now())
            self._carry_out(self.machine.handle(event))

    # --- instructions -------------------------------------------------------------------------------------------------

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case machine_events.WriteStatus():
                    self._reporter.tell(one.uid, one.status)
                case machine_events.ConfirmDeletion():
                    self._reporter.confirm(one.uid)
                case machine_events.Tell():
                    pod = self._seen(one.uid)
                    if pod is not None:
                        self._recorder.event(pod, one.type, one.reason, one.message)
                case machine_events.PrepareVolumes():
                    self._in_turn((one.uid, ""), functools.partial(self._prepare, one.uid))
                case machine_events.CleanUp():
                    self._in_turn((one.uid, ""), functools.partial(self._clean_up, one.uid, logs=one.logs))
                case _:
                    self._carry_out_for_container(one)

    def _carry_out_for_container(
        self,
        one: machine_events.Start
        | machine_events.Stop
        | machine_events.RunHook
        | machine_events.BeginProbe
        | machine_events.EndProbe,
    ) -> None:
        match one:
            case machine_events.Start():
                self._in_turn((one.uid, one.container), functools.partial(self._start, one))
            case machine_events.Stop():
                # Not in order: a shorter grace period must not wait for a longer one.
                run = run_id(one.uid, one.container, one.run)
                self._spawn(functools.partial(self._runtime.stop, run, one.grace_s))
            case machine_events.RunHook():
                self._spawn(functools.partial(self._checks.run_hook, one))
            case machine_events.BeginProbe():
                self._checks.begin_probe(one)
            case machine_events.EndProbe():
                self._checks.end_probe(one.uid, one.container, one.run, one.kind)

    def _in_turn(self, lane: tuple[str, str], work: Callable[[], Awaitable[None]]) -> None:
        before = self._lanes.get(lane)

        async def turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await work()

        task = self._lanes[lane] = self._spawn(turn)
        task.add_done_callback(lambda ended: self._lanes.pop(lane, None) if self._lanes.get(lane) is ended else None)

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        async def logged() -> None:
            try:
                await work()
            except Exception as problem:  # an error of one pod must not affect the others
                log.exception("an instruction failed", error=problem)

        task = asyncio.create_task(logged())
        # The event loop holds only weak references to tasks.
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _prepare(self, uid: str) -> None:
        pod = self._seen(uid)
        if pod is None:
            return
        try:
            self._checkpoint.write(pod)
            if pod["spec"].get("volumes"):
                self._workspaces.prepare(pod)
                await volumes.prepare(pod, self._volumes / uid, references=self._references, settings=self._hardware)
        except Exception as problem:  # whatever it is, the pod must not wait for ever
            if not isinstance(problem, volumes.VolumeError):
                log.exception("folders not made", error=problem, pod=meta.qualified_name(pod))
            self._happened(machine_events.VolumesFailed(now=self._clock.now(), uid=uid, message=str(problem)))
        else:
            self._happened(machine_events.VolumesReady(now=self._clock.now(), uid=uid))

    async def _keep_files_fresh(self) -> None:
        while True:
            await self._clock.sleep(_REFRESH_S)
            await self.refresh_files()

    async def refresh_files(self) -> None:
        """Refresh files made from API objects, in all pods."""
        for pod in list(self.machine.pods):
            seen = dict(pod.seen)
            if not volumes.may_change(seen):
                continue
            try:
                folder = self._volumes / pod.uid
                await volumes.refresh(seen, folder, references=self._references, settings=self._hardware)
            except (volumes.VolumeError, errors.ApiError, TransportError, OSError) as problem:
                log.warning("files not brought up to date", pod=meta.qualified_name(seen), error=problem)

    async def _keep_workspaces(self) -> None:
        await self._pods.wait_synced()
        await self._workspaces.run()

    def _all_pods(self) -> Iterator[Object]:
        """The pods of this node, ended or not, as the API or a dispatch had them."""
        yield from self._pods.cache.values()
        yield from (dict(pod.seen) for pod in self.machine.pods)

    async def _watch_storage(self) -> None:
        while True:
            await self._clock.sleep(_STORAGE_S)
            await self.check_storage()

    async def check_storage(self) -> None:
        """Evict pods that have exceeded their storage limits."""
        for pod in list(self.machine.pods):
            seen = dict(pod.seen)
            if pod.over or not storage.is_limited(seen):
                continue
            in_volumes, others = await asyncio.to_thread(self._written, pod.uid, storage.own_volumes(seen))
            if message := storage.excess(seen, volumes=in_volumes, others=others):
                self.evict(pod.uid, message)

    def _written(self, uid: str, names: Sequence[str]) -> tuple[dict[str, int], int]:
        """The bytes that a pod has written: into its volumes, and elsewhere."""
        in_volumes = {name: folder_size(self._volumes / uid / name) for name in names}
        return in_volumes, sum(map(folder_size, self._runtime.folders(uid)))

    async def _start(self, wanted: machine_events.Start) -> None:
        fields = {"uid": wanted.uid, "container": wanted.container, "run": wanted.run}
        try:
            launch = await self._launch(wanted.uid, wanted.container, wanted.run)
            if launch is None:
                return
            self._runs.setdefault(wanted.uid, set()).add(launch.id)
            if launch.last_words:
                termination_message.prepare(self._volumes / wanted.uid, launch)
            await self._runtime.start(launch)
        except Exception as error:  # whatever it is, the container must not wait for ever
            problem = error if isinstance(error, LaunchError) else LaunchError("CreateContainerError", str(error))
            if problem is not error:
                log.exception("container not started", error=error, pod=wanted.uid, container=wanted.container)
            event = machine_events.StartFailed(
                now=self._clock.now(),
                reason=problem.reason,
                message=problem.message,
                **fields,  # type: ignore[arg-type]
            )
            self._happened(event)
            return
        self._launches[launch.id] = launch
        if wanted.run == 0 and (remark := self._runtime.remark(launch)) and (pod := self._seen(wanted.uid)):
            self._recorder.event(pod, "Warning", "ImageNotUsed", remark)
        self._happened(machine_events.Started(now=self._clock.now(), id=launch.id, **fields))  # type: ignore[arg-type]

    async def _launch(self, uid: str, container: str, run: int) -> Launch | None:
        pod = self._seen(uid)
        if pod is None:
            return None
        folder = self._volumes / uid
        home = str(self._runtime.home(uid))
        links: Mapping[str, str] = {}
        if self._services is not None:
            await self._services.wait_known()
            links = self._services.variables(pod)
        launch = await container_config.launch(
            pod,
            container,
            run,
            references=self._references,
            settings=self._hardware,
            mounts=functools.partial(volumes.mounts, pod, container, folder),
            home=home,
            links=links,
        )
        launch = self._with_names(launch, pod)
        launch = self._devices.given(launch, pod)
        return termination_message.given(
            launch, container_checks.container_of(pod, container), folder, home=home, may_mount=self._runtime.may_mount
        )

    def _with_names(self, launch: Launch, pod: Object) -> Launch:
        """A launch with the names of services in its hosts file, unless its pod has its own."""
        if self._services is None or any(one.target == str(hosts.MACHINE) for one in launch.mounts):
            return launch
        cheap = bool(launch.mounts) or launch.runtime == CONTAINER
        mounts = self._services.mounts(pod, cheap=cheap)
        return msgspec.structs.replace(launch, mounts=[*launch.mounts, *mounts]) if mounts else launch

    async def _clean_up(self, uid: str, *, logs: bool) -> None:
        for run in self._runs.get(uid, ()):
            self._launches.pop(run, None)
        if logs:
            for run in self._runs.pop(uid, ()):
                await self._runtime.forget(run)
            self._checkpoint.forget(uid)
        self._devices.release(uid)
        await self._runtime.clean_up(uid, logs=logs)
        made = self._volumes / uid
        if made.exists():
            # The API may not know of the end yet: termination messages are kept until the pod is deleted.
            await asyncio.to_thread(volumes.remove, made, keep=() if logs else (termination_message.FOLDER,))
            await asyncio.to_thread(termination_message.trim, made)

    async def launch_of(self, uid: str, container: str, run: int) -> Launch | None:
        """The launch of a run: as it was started, or rebuilt after a restart of the agent; None if the pod is gone."""
        return self._launches.get(run_id(uid, container, run)) or await self._launch(uid, container, run)

    def _seen(self, uid: str) -> dict[str, Any] | None:
        """A pod as the API last had it."""
        pod = self.machine.pod(uid)
        return None if pod is None else dict(pod.seen)
