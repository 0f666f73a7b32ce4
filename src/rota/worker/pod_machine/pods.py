"""One pod: from its binding to this node until nothing of it is left. The rules are the kubelet's.

Every event changes the state; then `advance` inspects all of it and returns the next instructions. Nothing is
instructed twice: pending instructions are part of the state.

A container is started only if its last run is known to have ended. So nothing runs twice at the same time, whatever is
lost: a response, or the agent itself.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, resources, times
from rota.worker import addresses
from rota.worker.pod_machine import containers as parts
from rota.worker.pod_machine import endings, machine_events, specs, statuses
from rota.worker.pod_machine.containers import Container, Ending, Stage, Streak
from rota.worker.pod_machine.machine_events import Instruction, Object

#: The minimum grace period of a container after its preStop hook.
_LEAST_GRACE_S: Final = 2.0
#: When volumes that could not be made are tried again.
_VOLUMES_AGAIN_S: Final = 2.0
#: How many entries of a pod's history are kept.
_STORY: Final = 64
#: The grace period of an eviction; the kubelet's.
_EVICTION_S: Final = 1.0
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
EVICTED: Final = "Evicted"


@dataclass(slots=True)
class Termination:
    """The termination of the pod."""

    #: When its containers must have ended.
    deadline: float
    #: The phase of the terminated pod; empty if its containers decide.
    phase: str = ""
    reason: str = ""
    message: str = ""


class Pod:
    """The state of one pod."""

    def __init__(self, pod: Object, *, now: float, address: str) -> None:
        self.seen: Object = pod
        self.spec: Final = specs.read(pod)
        self.containers: Final = {one.name: Container(one) for one in self.spec.all}
        self.begun_at: Final = _start_time(pod, now)
        self.state_history: Final[deque[tuple[float, str]]] = deque(maxlen=_STORY)
        self.termination: Termination | None = None
        self.gone = False
        #: Whether the API still has this uid; an adopted pod has to be confirmed.
        self.confirmed_here = True
        self._address: Final = address
        self._volumes = Stage.IDLE
        self._volumes_again = 0.0
        self._initialized = not self.spec.first
        self._over = False
        self._told: dict[str, Any] | None = None
        self._out: list[Instruction] = []
        #: Its requests as last seen; None until they are needed.
        self._requests: Mapping[str, int] | None = None

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def uid(self) -> str:
        """Which pod."""
        return self.spec.uid

    @property
    def requests(self) -> Mapping[str, int]:
        """Its requests in the units of `rota.api.resources`."""
        if self._requests is None:
            self._requests = resources.pod_requests(self.seen)
        return self._requests

    @property
    def over(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self._over

    @property
    def forgotten(self) -> bool:
        """Whether nothing is left to be done about it."""
        return self._over and self.gone

    @property
    def _first(self) -> list[Container]:
        return [self.containers[one.name] for one in self.spec.first]

    @property
    def _main(self) -> list[Container]:
        return [self.containers[one.name] for one in self.spec.main]

    def wake_at(self) -> float | None:
        """When to call `advance` again without an event."""
        times_ahead = [
            one.backoff.until
            for one in self.containers.values()
            if one.stage is Stage.IDLE and one.backoff.until and self.termination is None
        ]
        if self._volumes is Stage.ENDED and not self._over:
            times_ahead.append(self._volumes_again)
        if self.termination is None and self.spec.deadline_s is not None and not self._over:
            times_ahead.append(self.begun_at + self.spec.deadline_s)
        times_ahead += [
            one.stopping for one in self.containers.values() if one.pre_stopping and one.stopping is not None
        ]
        return min(times_ahead, default=None)

    # --- events -------------------------------------------------------------------------------------------------------

    def refuse(self, reason: str, message: str) -> None:
        """The pod is not admitted: it fails without having run."""
        self.termination = Termination(deadline=0.0, phase=statuses.FAILED, reason=reason, message=message)

    def see(self, pod: Object, now: float) -> None:
        """The pod as the API has it now."""
        self.seen = pod
        self._requests = None
        adopted, self.confirmed_here = not self.confirmed_here, True
        status = pod.get("status") or {}
        if status.get("phase") in statuses.FINISHED and (adopted or not self._over) and self._told != status:
            # Another component has failed it, or a former agent had written its end: that status stays, with the
            # termination messages in it.
            self._told = dict(status)
            self._wind(Termination(deadline=now + self.spec.grace_s, phase=status["phase"]), now)
        if not meta.is_deleting(pod):
            return
        metadata = meta.metadata(pod)
        deadline = times.parse(metadata["deletionTimestamp"])
        grace = metadata.get("deletionGracePeriodSeconds")
        if grace is not None:
            deadline = min(deadline, now + grace)
        self._wind(Termination(deadline=deadline), now)

    def lose(self, now: float) -> None:
        """The pod was deleted from the API."""
        if self.gone:
            return
        self.gone = True
        self._note(now, "gone from the API")
        grace = 0.0 if meta.is_deleting(self.seen) else self.spec.grace_s
        self._wind(Termination(deadline=now + grace), now)
        if self._over:
            self._out.append(machine_events.CleanUp(uid=self.uid, logs=True))

    def adopt(self, found: machine_events.FoundRun, now: float) -> None:
        """A run of a container that a runtime found after a restart of the agent."""
        container = self.containers.get(found.container)
        if container is None:
            return
        self._volumes = Stage.RUNNING
        container.run = container.restarts = found.run
        container.begin()
        container.began(found.id, found.started_at)
        ending = endings.of_found_run(found)
        if ending is not None:
            self.exit(container.name, found.run, ending, found.finished_at or now)
        else:
            self._note(now, f"{container.name}: adopted")
            self._up(container)

    def adopt_previous(self, found: machine_events.FoundRun) -> None:
        """The run before the one that is adopted next: the container's last state in the status."""
        container = self.containers.get(found.container)
        if container is not None:
            container.before = endings.of_found_run(found)

    def restore(self) -> None:
        """A pod that ran here before and that no runtime knows: the containers that its status shows are lost."""
        status = self.seen.get("status") or {}
        if status.get("phase") in statuses.FINISHED:
            self._over, self._told = True, dict(status)
            return
        for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            container = self.containers.get(one.get("name", ""))
            if container is not None:
                self._restore(container, one)

    def prepared(self, now: float) -> None:
        """Its volumes are ready."""
        if self._volumes is Stage.STARTING:
            self._volumes = Stage.RUNNING
            self._note(now, "folders made")

    def unprepared(self, message: str, now: float) -> None:
        """Its volumes could not be made."""
        if self._volumes is Stage.STARTING:
            self._volumes, self._volumes_again = Stage.ENDED, now + _VOLUMES_AGAIN_S
            self._tell("Warning", "FailedMount", message)

    def start(self, name: str, run: int, run_id: str, now: float) -> None:
        """A container has started."""
        container = self._current(name, run, Stage.STARTING)
        if container is None:
            return
        container.began(run_id, now)
        self._note(now, f"{name}: run {run} started")
        self._tell("Normal", "Started", f"Started container {name}")
        if container.hook_pending:
            self._out.append(machine_events.RunHook(uid=self.uid, container=name, run=run, hook="postStart"))
        else:
            self._up(container)

    def fail_to_start(self, name: str, run: int, reason: str, message: str, now: float) -> None:
        """A container could not be started."""
        container = self._current(name, run, Stage.STARTING)
        if container is None:
            return
        self._note(now, f"{name}: {reason}: {message}")
        self._tell("Warning", "Failed", f"Error: {message}")
        container.backoff.failed(now=now)
        container.wait(reason, message)
        if self.termination is not None or (self.spec.restart_policy == "Never" and reason == "RunContainerError"):
            container.end(Ending(code=128, reason="StartError", message=message, finished_at=now))

    def exit(self, name: str, run: int, ending: Ending, now: float) -> None:
        """A container has ended."""
        container = self._current(name, run, Stage.RUNNING) or self._current(name, run, Stage.STARTING)
        if container is None:
            return
        self._note(now, f"{name}: run {run} ended with {ending.code} ({ending.reason})")
        ran_s = now - container.started_at if container.stage is Stage.RUNNING else 0.0
        if container.stage is Stage.STARTING:
            # It ended before its start was reported.
            self._tell("Normal", "Started", f"Started container {name}")
        container.end(ending)
        if self.termination is None and self._restarts(container):
            container.again()
            container.backoff.ended(now=now, ran_s=ran_s)
            if container.backoff.waits(now):
                pod = f"{self.spec.name}_{self.spec.namespace}({self.uid})"
                message = f"back-off {container.backoff.shown} restarting failed container={name} pod={pod}"
                container.wait(parts.CRASHING, message)
                self._tell("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {pod}")
            else:
                container.wait(parts.CREATING)

    def probe(self, event: machine_events.Probed) -> None:
        """Handle the result of a probe."""
        container = self._current(event.container, event.run, Stage.RUNNING)
        if container is None or container.stopping is not None or event.kind not in container.probing:
            return
        wanted = container.spec.probes[event.kind]
        streak = container.streaks.setdefault(event.kind, Streak())
        streak.add(event.success)
        if not event.success:
            title = event.kind.capitalize()
            self._tell("Warning", "Unhealthy", f"{title} probe failed: {event.message}")
        if event.kind == "readiness":
            if streak.successes >= wanted.successes:
                container.ready = True
            elif streak.failures >= wanted.failures:
                container.ready = False
        elif streak.failures >= wanted.failures:
            grace = self.spec.grace_s if wanted.grace_s is None else wanted.grace_s
            what = f"Container {container.name} failed {event.kind} probe"
            self._tell("Normal", "Killing", f"{what}, will be restarted")
            self._stop(container, event.now + grace, event.now)
        elif event.kind == "startup" and streak.successes >= wanted.successes:
            self._out.append(
                machine_events.EndProbe(uid=self.uid, container=container.name, run=container.run, kind="startup")
            )
            container.probing.discard("startup")
            self._up(container)

    def hook(self, event: machine_events.HookDone) -> None:
        """Handle the end of a hook."""
        container = self._current(event.container, event.run, Stage.RUNNING)
        if container is None:
            return
        if event.hook == "preStop":
            if not event.success:
                self._tell("Warning", "FailedPreStopHook", event.message or "PreStopHook failed")
            self._after_pre_stop(container, event.now)
        elif container.hook_pending:
            container.hook_pending = False
            if event.success:
                self._up(container)
            else:
                self._tell("Warning", "FailedPostStartHook", event.message or "PostStartHook failed")
                self._stop(container, event.now + self.spec.grace_s, event.now)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> list[Instruction]:
        """The next instructions."""
        if not self._over:
            self._check_deadline(now)
            if self.termination is None:
                self._work(now)
            if self.termination is not None:
                self._wind_down(now)
        self._report(now)
        out, self._out = self._out, []
        return out

    def evict(self, message: str, now: float) -> None:
        """It has exceeded its storage limits, or has to make room."""
        if self.termination is None and not self._over:
            self._note(now, f"evicted: {message}")
            self._tell("Warning", EVICTED, message)
            self._wind(Termination(now + _EVICTION_S, statuses.FAILED, EVICTED, message), now)

    def _check_deadline(self, now: float) -> None:
        limit = self.spec.deadline_s
        if limit is not None and now >= self.begun_at + limit and self.termination is None:
            message = "Pod was active on the node longer than the specified deadline"
            self._tell("Normal", DEADLINE_EXCEEDED, message)
            ending = Termination(now + self.spec.grace_s, statuses.FAILED, DEADLINE_EXCEEDED, message)
            self._wind(ending, now)

    def _work(self, now: float) -> None:
        if self._volumes is Stage.IDLE or (self._volumes is Stage.ENDED and now >= self._volumes_again):
            self._volumes = Stage.STARTING
            self._out.append(machine_events.PrepareVolumes(uid=self.uid))
        if self._volumes is not Stage.RUNNING:
            return
        if not self._begin_first(now):
            return
        self._initialized = True
        for container in self._main:
            self._begin(container, now)
        if all(one.stage is Stage.ENDED for one in self._main):
            self._wind(Termination(deadline=now + self.spec.grace_s), now)

    def _begin_first(self, now: float) -> bool:
        """Advance init containers and sidecars; returns whether the main containers may run."""
        for container in self._first:
            if container.spec.kind == "init":
                if container.succeeded or self._initialized:
                    continue
                if container.failed:
                    self._wind(Termination(deadline=now + self.spec.grace_s, phase=statuses.FAILED), now)
                    return False
                self._begin(container, now)
                return self._initialized
            self._begin(container, now)
            if not container.started and not self._initialized:
                return False
        return True

    def _begin(self, container: Container, now: float) -> None:
        if container.stage is Stage.IDLE and not container.backoff.waits(now):
            container.begin()
            self._out.append(machine_events.Start(uid=self.uid, container=container.name, run=container.run))

    def _restarts(self, container: Container) -> bool:
        """Whether a container that has ended is to be restarted."""
        kind, policy = container.spec.kind, self.spec.restart_policy
        if kind == "sidecar":
            return True
        if container.ending is not None and container.ending.code == 0:
            return kind == "main" and policy == "Always"
        return policy != "Never"

    def _up(self, container: Container) -> None:
        """A container runs and its postStart hook has ended: start its probes."""
        wanted = container.spec.probes
        if "startup" in wanted and not container.streaks.get("startup", Streak()).successes:
            self._begin_probe(container, "startup")
            return
        container.started = True
        for kind in ("liveness", "readiness"):
            if kind in wanted:
                self._begin_probe(container, kind)
        container.ready = "readiness" not in wanted

    def _begin_probe(self, container: Container, kind: machine_events.ProbeKind) -> None:
        container.probing.add(kind)
        self._out.append(
            machine_events.BeginProbe(uid=self.uid, container=container.name, run=container.run, kind=kind)
        )

    # --- termination --------------------------------------------------------------------------------------------------

    def _wind(self, ending: Termination, now: float) -> None:
        """Begin the termination, or shorten it."""
        known = self.termination
        if known is None:
            self.termination = ending
            self._note(now, f"winding down: {ending.reason or 'done or deleted'}")
            return
        if ending.deadline < known.deadline:
            known.deadline = ending.deadline
            for container in self.containers.values():
                if container.stage is Stage.RUNNING and container.stopping is not None:
                    self._hasten(container, ending.deadline, now)

    def _hasten(self, container: Container, deadline: float, now: float) -> None:
        if container.stopping is None or container.stopping <= deadline:
            return
        container.stopping = deadline
        if not container.pre_stopping:
            grace = max(deadline - now, 0.0)
            self._out.append(
                machine_events.Stop(uid=self.uid, container=container.name, run=container.run, grace_s=grace)
            )

    def _wind_down(self, now: float) -> None:
        assert self.termination is not None
        workers = [one for one in self.containers.values() if one.spec.kind != "sidecar" and one.live]
        if workers:
            for container in workers:
                self._stop(container, self.termination.deadline, now)
        else:
            # Sidecars serve the others, and the sidecars after them: they stop in reverse order.
            alive = [one for one in self._first if one.live]
            if alive:
                self._stop(alive[-1], self.termination.deadline, now)
            else:
                self._end(now)
        for container in self.containers.values():
            if container.pre_stopping and container.stopping is not None and now >= container.stopping:
                self._after_pre_stop(container, now)

    def _stop(self, container: Container, deadline: float, now: float) -> None:
        """Stop a container by a deadline; one that is starting is stopped as soon as it runs."""
        if container.stage is not Stage.RUNNING:
            return
        if container.stopping is not None:
            self._hasten(container, deadline, now)
            return
        container.stopping = deadline
        container.ready = False
        self._tell("Normal", "Killing", f"Stopping container {container.name}")
        if container.spec.has_pre_stop and deadline > now:
            container.pre_stopping = True
            self._out.append(
                machine_events.RunHook(uid=self.uid, container=container.name, run=container.run, hook="preStop")
            )
        else:
            grace = max(deadline - now, 0.0)
            self._out.append(
                machine_events.Stop(uid=self.uid, container=container.name, run=container.run, grace_s=grace)
            )

    def _after_pre_stop(self, container: Container, now: float) -> None:
        if not container.pre_stopping or container.stopping is None:
            return
        container.pre_stopping = False
        grace = max(container.stopping - now, _LEAST_GRACE_S)
        self._out.append(machine_events.Stop(uid=self.uid, container=container.name, run=container.run, grace_s=grace))

    def _end(self, now: float) -> None:
        self._over = True
        self._note(now, "over")
        self._report(now)
        self._out.append(machine_events.CleanUp(uid=self.uid, logs=self.gone))

    # --- status -------------------------------------------------------------------------------------------------------

    def _report(self, now: float) -> None:
        if self.gone or not self.confirmed_here:
            return
        status = self.status(now)
        if status != self._told:
            self._told = status
            self._out.append(machine_events.WriteStatus(uid=self.uid, status=status))
        if self._over and meta.is_deleting(self.seen):
            confirm = machine_events.ConfirmDeletion(uid=self.uid)
            if confirm not in self._out:
                self._out.append(confirm)

    def status(self, now: float) -> dict[str, Any]:
        """The pod's status for the API."""
        if self._told is not None and self._told.get("phase") in statuses.FINISHED:
            return self._told
        termination = self.termination
        phase = statuses.phase(self._main, initialized=self._initialized)
        if self._over and termination is not None:
            phase = termination.phase or statuses.final_phase(self._main, self._first)
        self._explain_waiting()
        own = addresses.of(self.seen, self._address)
        found: dict[str, Any] = {
            **statuses.kept(self.seen),
            "phase": phase,
            "conditions": statuses.conditions(
                self.seen, self._told or {}, self.spec, self.containers,
                prepared=self._volumes is Stage.RUNNING, initialized=self._initialized, phase=phase,
                now=times.format_time(now),
            ),
            "startTime": times.format_time(self.begun_at),
            "hostIP": self._address,
            "hostIPs": [{"ip": self._address}],
            "podIP": own,
            "podIPs": [{"ip": own}],
            "containerStatuses": [one.on_wire() for one in self._main],
        }  # fmt: skip
        if self.spec.first:
            found["initContainerStatuses"] = [one.on_wire() for one in self._first]
        if termination is not None and termination.reason:
            found["reason"], found["message"] = termination.reason, termination.message
        return found

    def _explain_waiting(self) -> None:
        """Set the waiting reason of containers that wait for init containers."""
        for one in self.containers.values():
            if one.stage is Stage.IDLE and one.run == 0 and one.reason in {parts.CREATING, parts.INITIALIZING}:
                waits = bool(self.spec.first) and not self._initialized and self._volumes is Stage.RUNNING
                one.reason = parts.INITIALIZING if waits else parts.CREATING

    # --- details ------------------------------------------------------------------------------------------------------

    def _current(self, name: str, run: int, stage: Stage) -> Container | None:
        """A container in this stage of this run; None if the event is about another run."""
        found = self.containers.get(name)
        return found if found is not None and found.run == run and found.stage is stage else None

    def _restore(self, container: Container, status: Object) -> None:
        container.restarts = container.run = status.get("restartCount") or 0
        ending = endings.of_status(status)
        if ending is None:
            return
        container.end(ending)
        if self._restarts(container):
            container.again()
            container.wait(parts.CREATING)

    def _tell(self, kind: Any, reason: str, message: str) -> None:
        self._out.append(machine_events.Tell(uid=self.uid, type=kind, reason=reason, message=message))

    def _note(self, now: float, text: str) -> None:
        self.state_history.append((now, text))


def _start_time(pod: Object, now: float) -> float:
    begun = endings.time_of((pod.get("status") or {}).get("startTime"))
    return now if begun is None else begun
