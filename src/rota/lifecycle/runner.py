"""Observes the machines of a cluster and carries out the steps of a plan.

Steps of a stage run at the same time, a few at once. If one fails, the others of its stage end and no later stage
begins. Each step is in the journal when it is done.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from rota.kit import errors
from rota.kit.clock import Clock
from rota.kit.system import SystemClock
from rota.lifecycle import service_units, supervisor
from rota.lifecycle.cluster_spec import ClusterSpec, Member, Role
from rota.lifecycle.cluster_view import AT_ONCE, ClusterView
from rota.lifecycle.journal import Journal
from rota.lifecycle.observed import Observed
from rota.lifecycle.reach import Reach, StepFailed, Unreachable
from rota.lifecycle.steps import Action, Plan, Step

_LOOK_AGAIN_S: Final = 0.5
_READY_S: Final = 300.0
_DRAIN_S: Final = 600.0
_QUICK_S: Final = 60.0


class Runner:
    """Works on one cluster."""

    def __init__(
        self, spec: ClusterSpec, reach: Reach, *, release: str = "", bundle: Path | None = None, force: bool = False
    ) -> None:
        """`bundle` is the file of `release`; `force` evicts pods that nothing starts again."""
        self._spec: Final = spec
        self._reach: Final = reach
        self._release: Final = release
        self._bundle: Final = bundle
        self._force: Final = force
        self._view: Final = ClusterView(spec, reach)
        self._clock: Final = SystemClock()
        self._interrupted = False

    def observe(self, inventory: dict[str, Member]) -> Observed:
        """The state of every machine of the file and of the journal, and the nodes that a master reports."""
        members = {**inventory, **{one.name: one for one in self._spec.members}}
        states = self._view.states(list(members.values()))
        serving = [one for one in members.values() if one.role is Role.MASTER and states[one.name].serving]
        if not serving:
            return Observed(members=states, inventory=dict(inventory))
        report = self._view.report(masters=serving)
        return Observed(
            members=states,
            inventory=dict(inventory),
            nodes=report.nodes,
            level=report.level,
            master_levels=report.master_levels,
        )

    # --- acting -----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan, journal: Journal, *, verb: str, say: Callable[[str], None], clock: Clock) -> None:
        """Carry out a plan; UserError with the steps that failed."""
        journal.begin(verb, plan, at=clock.now())
        try:
            self._run_stages(plan, journal, say)
        finally:
            with contextlib.suppress(errors.UserError):  # it expires
                self._view.revoke()
        if not plan.left:
            journal.end()

    def _run_stages(self, plan: Plan, journal: Journal, say: Callable[[str], None]) -> None:
        number, total = 0, len(plan.steps)
        for stage in plan.stages():
            failures: list[str] = []
            for step in stage:
                if step.action is Action.PREPARE:
                    journal.placing(self._member(step.member, journal))
            with ThreadPoolExecutor(AT_ONCE) as threads:
                members = {one.member: self._member(one.member, journal) for one in stage}
                running = {threads.submit(self._carry_out, one, members[one.member], journal): one for one in stage}
                try:
                    for done in as_completed(running):
                        step = running[done]
                        number += 1
                        try:
                            done.result()
                        except errors.UserError as problem:
                            journal.failed(step, str(problem))
                            failures.append(f"{step.text}: {problem}")
                            say(f"[{number}/{total}] FAILED {step.text}: {problem}")
                            continue
                        self._note(step, journal)
                        say(f"[{number}/{total}] {step.text}")
                except BaseException:
                    self._interrupted = True
                    threads.shutdown(wait=False, cancel_futures=True)
                    self._reach.abandon()
                    raise
            if failures:
                raise errors.UserError("; ".join(failures), "correct that, and run the same command again to go on")

    def _note(self, step: Step, journal: Journal) -> None:
        if step.action in {Action.REMOVE, Action.FORGET}:
            journal.removed(step.member)
        elif step.action in {Action.START, Action.JOIN}:
            journal.placing(self._member(step.member, journal))  # its options may be new
        journal.done(step)

    def _member(self, name: str, journal: Journal) -> Member:
        return self._spec.member(name) or journal.record.inventory[name]

    def _carry_out(self, step: Step, member: Member, journal: Journal) -> None:
        match step.action:
            case Action.PREPARE:
                self._reach.ask(member, {"op": "prepare", "cluster": self._spec.name, "role": str(member.role)})
            case Action.INSTALL:
                self._reach.ask(member, {"op": "install", "release": self._release}, payload=self._bundle)
            case Action.COPY_KEYS:
                source = self._member(step.detail, journal)
                keys = self._reach.ask(source, {"op": "read", "path": service_units.KEYS_FILE})
                self._reach.ask(member, {"op": "write", "path": service_units.KEYS_FILE, "text": keys})
            case Action.START:
                self._start(member, restart=step.restart)
            case Action.JOIN:
                self._join(member)
            case Action.DRAIN:
                self._drain(member.name)
            case Action.DELETE_NODE:
                self._view.rota("delete", "node", member.name, "--ignore-not-found", "--timeout=60s")
            case Action.REMOVE:
                unit = service_units.unit_name(self._spec.name, member.name)
                self._reach.ask(member, {"op": "remove", "unit": unit, "cluster": self._spec.name})
            case Action.FORGET:
                pass
            case Action.PRUNE:
                self._reach.ask(member, {"op": "prune", "releases": step.detail.split(", ")})
            case Action.RAISE_LEVEL:
                self._raise_level(member, int(step.detail))

    def _start(self, member: Member, *, restart: bool) -> None:
        started_at = self._ask_start(member, restart=restart)
        if member.role is Role.MASTER:
            self._wait(f"{member.name} does not serve", lambda: self._view.state(member).serving, member)
        else:
            self._wait_node(member, after=started_at)

    def _raise_level(self, member: Member, level: int) -> None:
        self._view.raise_level(member)
        self._wait(f"the masters do not report level {level}", lambda: self._view.report().level >= level, member)

    def _ask_start(self, member: Member, *, restart: bool) -> float:
        """Start a member; returns when, by the clock of its machine."""
        return float(
            self._reach.ask(
                member,
                {
                    "op": "start",
                    "service": service_units.service(self._spec, member).as_json(),
                    "environment": service_units.environment(self._spec, member),
                    "release": self._release,
                    "restart": restart,
                    "supervisor": Path(supervisor.__file__).read_text(),
                },
            )
        )

    def _join(self, member: Member) -> None:
        """Start a worker with a token, and remove the token from its machine when the node is ready."""
        lines = self._view.invitation().lines
        self._reach.ask(member, {"op": "write", "path": service_units.JOIN_FILE, "text": lines})
        self._wait_node(member, after=self._ask_start(member, restart=True))
        self._reach.ask(member, {"op": "unlink", "path": service_units.JOIN_FILE})

    def _drain(self, name: str) -> None:
        forced = ("--force", "--delete-emptydir-data") if self._force else ()
        try:
            self._view.rota("drain", name, "--ignore-daemonsets", f"--timeout={_DRAIN_S:.0f}s", *forced,
                timeout_s=_DRAIN_S + _QUICK_S,
            )  # fmt: skip
        except StepFailed as problem:
            if self._force:
                raise
            raise StepFailed(
                problem.message, "run with --force to evict them as well; they are not started again"
            ) from None

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait_node(self, member: Member, *, after: float) -> None:
        """Wait until the node is ready, and its worker has renewed the node's lease since it was started."""

        def is_ready() -> bool:
            report = self._view.report()
            node = report.nodes.get(member.name)
            return node is not None and node.ready and report.renewals.get(member.name, 0.0) >= after

        self._wait(f"the node {member.name} does not become ready", is_ready, member)

    def _wait(self, otherwise: str, is_so: Callable[[], bool], member: Member) -> None:
        """Wait until `is_so`. A look that fails is tried again: a master may just be changing over, or ssh be busy."""
        deadline = self._clock.monotonic() + _READY_S
        while True:
            fault = ""
            try:
                if is_so():
                    return
            except (StepFailed, Unreachable) as problem:
                fault = f"; the last look failed: {problem.message}"
            if self._interrupted:
                raise StepFailed("interrupted")
            if self._clock.monotonic() > deadline:
                raise StepFailed(f"{otherwise} within {_READY_S:.0f} s{fault}", self._log_remedy(member))
            self._clock.block(_LOOK_AGAIN_S)

    def _log_remedy(self, member: Member) -> str:
        unit = service_units.service(self._spec, member)
        log = f"journalctl -u {unit.unit}" if unit.text else f"{service_units.home(self._spec, member.name)}/output.log"
        return f"see {log} on {member.address}"
