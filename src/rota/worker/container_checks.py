"""Hooks and probes of containers: runs them as the pod machine asks, and reports their results to it."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from rota.client.verbs import Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.worker import addresses, probes
from rota.worker.pod_machine import machine_events
from rota.worker.pod_machine.machine_events import Event
from rota.worker.pod_machine.pod_manager import PodMachine
from rota.worker.runtimes.runtime_interface import Launch, LaunchError, Runtime

log = logs.get(__name__)

#: Timeout of a postStart hook.
_HOOK_S: Final = 300.0
_PROBES: Final[Mapping[str, str]] = {
    "startup": "startupProbe",
    "liveness": "livenessProbe",
    "readiness": "readinessProbe",
}


class ContainerChecks:
    """The hooks and probes of one agent's containers."""

    def __init__(
        self,
        machine: PodMachine,
        runtime: Runtime,
        *,
        address: str,
        launch_of: Callable[[str, str, int], Awaitable[Launch | None]],
        happened: Callable[[Event], None],
        spawn: Callable[[Callable[[], Awaitable[None]]], "asyncio.Task[None]"],
        clock: Clock,
    ) -> None:
        """`launch_of` finds the launch of a run, `spawn` runs a task of the agent."""
        self._machine: Final = machine
        self._runtime: Final = runtime
        self._address: Final = address
        self._launch_of: Final = launch_of
        self._happened: Final = happened
        self._spawn: Final = spawn
        self._clock: Final = clock
        self._probes: Final[dict[tuple[str, str, int, str], asyncio.Task[None]]] = {}

    async def run_hook(self, wanted: machine_events.RunHook) -> None:
        """Run a postStart or preStop hook; the machine gets its result."""
        known = self._machine.pod(wanted.uid)
        launch = await self._launch_of(wanted.uid, wanted.container, wanted.run)
        if known is None or launch is None:
            return
        pod = dict(known.seen)
        container = container_of(pod, wanted.container)
        handler = (container.get("lifecycle") or {}).get(wanted.hook) or {}
        try:
            async with asyncio.timeout(_HOOK_S if wanted.hook == "postStart" else max(_grace(pod), 1)):
                answer = await probes.handle(
                    handler,
                    execute=functools.partial(self._runtime.execute, launch),
                    ports=_ports(container),
                    address=addresses.of(pod, self._address),
                )
        except Exception as problem:  # whatever goes wrong, the hook has ended
            if not isinstance(problem, OSError | TimeoutError | LaunchError):
                log.exception("hook failed", error=problem, pod=wanted.uid, container=wanted.container)
            answer = probes.Answer(False, str(problem) or type(problem).__name__)
        done = machine_events.HookDone(
            now=self._clock.now(),
            uid=wanted.uid,
            container=wanted.container,
            run=wanted.run,
            hook=wanted.hook,
            success=answer.success,
            message=answer.message,
        )
        self._happened(done)

    def begin_probe(self, wanted: machine_events.BeginProbe) -> None:
        """Start a probe, unless it runs."""
        key = (wanted.uid, wanted.container, wanted.run, wanted.kind)
        if key not in self._probes:
            task = self._probes[key] = self._spawn(functools.partial(self._probe, wanted))
            task.add_done_callback(lambda _: self._probes.pop(key, None))

    def end_probe(self, uid: str, container: str, run: int, kind: str) -> None:
        """Stop a probe."""
        task = self._probes.pop((uid, container, run, kind), None)
        if task is not None:
            task.cancel()

    async def _probe(self, wanted: machine_events.BeginProbe) -> None:
        known = self._machine.pod(wanted.uid)
        launch = await self._launch_of(wanted.uid, wanted.container, wanted.run)
        if known is None or launch is None:
            return
        pod = dict(known.seen)
        container = container_of(pod, wanted.container)

        def tell(answer: probes.Answer) -> None:
            state = self._machine.pod(wanted.uid)
            if state is None or state.containers[wanted.container].run != wanted.run:
                self.end_probe(wanted.uid, wanted.container, wanted.run, wanted.kind)
                return
            self._happened(
                machine_events.Probed(
                    now=self._clock.now(),
                    uid=wanted.uid,
                    container=wanted.container,
                    run=wanted.run,
                    kind=wanted.kind,
                    success=answer.success,
                    message=answer.message,
                )
            )

        await probes.run_probe(
            container[_PROBES[wanted.kind]],
            tell,
            execute=functools.partial(self._runtime.execute, launch),
            ports=_ports(container),
            address=addresses.of(pod, self._address),
            clock=self._clock,
        )


def container_of(pod: Object, name: str) -> Mapping[str, Any]:
    """A container of a pod, by its name."""
    spec = pod["spec"]
    every = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    found: Mapping[str, Any] = next(one for one in every if one["name"] == name)
    return found


def _grace(pod: Object) -> int:
    found = pod["spec"].get("terminationGracePeriodSeconds")
    return found if isinstance(found, int) else 30


def _ports(container: Mapping[str, Any]) -> dict[str, int]:
    return {one["name"]: one["containerPort"] for one in container.get("ports") or () if one.get("name")}
