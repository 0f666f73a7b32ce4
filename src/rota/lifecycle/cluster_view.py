"""A cluster as its masters report it, read by `rota` commands on their machines.

The commands run where the administrator's kubeconfig is, so the machine of the operator needs ssh and no way to the
API. Steps of a stage wait at the same time: they share a report, which is read at most once a second.
"""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from rota.api import times
from rota.client import masters as masters_of_leases
from rota.client.masters import Master
from rota.kit import errors, levels
from rota.kit.levels import Levels
from rota.kit.system import SystemClock
from rota.lifecycle import observed, service_units
from rota.lifecycle.cluster_spec import ClusterSpec, Member, Role
from rota.lifecycle.observed import MemberState, NodeState
from rota.lifecycle.reach import Reach, StepFailed, Unreachable

AT_ONCE: Final = 8
_FRESH_S: Final = 1.0
_QUICK_S: Final = 60.0
#: A join token is deleted at the end of a run; this is its life if the runner is killed before.
_TOKEN_TTL: Final = "30m"  # noqa: S105 - a duration
_TOKEN_USED_S: Final = 900.0
_NODE_LEASES: Final = "kube-node-lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Nodes, and when each last renewed its lease, by the clock of its machine; and the levels of the masters."""

    nodes: dict[str, NodeState]
    renewals: dict[str, float]
    #: The cluster's level, and the levels at which all running masters can work.
    level: int = levels.FIRST
    master_levels: Levels = levels.UNDECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What a worker joins with."""

    identifier: str
    #: The content of the worker's join file.
    lines: str
    made_at: float


class ClusterView:
    """Reads one cluster."""

    def __init__(self, spec: ClusterSpec, reach: Reach) -> None:
        self._spec: Final = spec
        self._reach: Final = reach
        self._clock: Final = SystemClock()
        self._lock: Final = threading.Lock()
        self._report: Report | None = None
        self._read_at = 0.0
        self._invitation: Invitation | None = None

    def state(self, member: Member) -> MemberState:
        """A member on its machine."""
        server = service_units.server(member) if member.role is Role.MASTER else ""
        try:
            found = self._reach.ask(member, {"op": "observe", "server": server}, timeout_s=_QUICK_S)
        except Unreachable as problem:
            return MemberState(fault=str(problem))
        return observed.read_member(found)

    def states(self, members: Sequence[Member]) -> dict[str, MemberState]:
        """Several members at the same time."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return dict(zip((one.name for one in members), threads.map(self.state, members), strict=True))

    def serving(self) -> list[Member]:
        """The masters of the file that serve now."""
        states = self.states(self._spec.masters)
        found = [one for one in self._spec.masters if states[one.name].serving]
        if not found:
            raise StepFailed("no master serves", "run 'rota cluster repair'")
        return found

    def report(self, *, masters: Sequence[Member] = ()) -> Report:
        """The nodes now; a report of this second is used again. `masters` are known to serve."""
        with self._lock:
            if self._report is None or self._clock.monotonic() - self._read_at > _FRESH_S:
                text = self.rota("get", "nodes,leases", "-A", "-o", "json", masters=masters)
                self._report, self._read_at = _read(json.loads(text)), self._clock.monotonic()
            return self._report

    def invitation(self) -> Invitation:
        """A join token for the workers of this run."""
        with self._lock:
            now = self._clock.monotonic()
            if self._invitation is None or now - self._invitation.made_at > _TOKEN_USED_S:
                masters = self.serving()
                about = f"--description=rota cluster {self._spec.name}"
                made = json.loads(self.rota("token", "create", "--json", f"--ttl={_TOKEN_TTL}", about, masters=masters))
                servers = ",".join(map(service_units.server, masters))
                lines = f'ROTA_TOKEN="{made["token"]}"\nROTA_JOIN="--join={servers} --ca-hash={made["ca_hash"]}"\n'
                self._invitation = Invitation(identifier=made["id"], lines=lines, made_at=now)
            return self._invitation

    def revoke(self) -> None:
        """Delete the join token, if one was made."""
        made, self._invitation = self._invitation, None
        if made is not None:
            self.rota("token", "delete", made.identifier)

    def raise_level(self, master: Member) -> None:
        """Raise the cluster's level, by the store that the master's process has."""
        command = [service_units.program(self._spec, master.name), "level", "raise"]
        environment = service_units.environment(self._spec, master)
        done = self._reach.ask(
            master,
            {"op": "run", "command": command, "timeout_s": _QUICK_S, "environment": environment},
            timeout_s=2 * _QUICK_S,
        )
        if done["code"]:
            raise StepFailed(_said(done) or f"the level cannot be raised on {master.name}")

    def rota(self, *arguments: str, masters: Sequence[Member] = (), timeout_s: float = _QUICK_S) -> str:
        """The output of a `rota` command with the kubeconfig of the first master that answers."""
        problem: errors.UserError = StepFailed("no master serves", "run 'rota cluster repair'")
        for master in masters or self.serving():
            config = f"--kubeconfig={service_units.data(self._spec, master.name)}/kubeconfig"
            command = [service_units.program(self._spec, master.name), *arguments, config]
            try:
                done = self._reach.ask(
                    master, {"op": "run", "command": command, "timeout_s": timeout_s}, timeout_s=timeout_s + _QUICK_S
                )
            except (Unreachable, StepFailed) as found:
                problem = found
                continue
            if not done["code"]:
                return str(done["out"])
            problem = StepFailed(_said(done) or f"{arguments[0]} fails on {master.name}")
        raise problem


def _said(done: dict[str, Any]) -> str:
    """The error of a command."""
    lines = done["err"].strip().splitlines()
    return str(lines[-1]).removeprefix("rota: ") if lines else ""


def _read(listed: dict[str, Any]) -> Report:
    items = listed["items"]
    leases = [one for one in items if one["kind"] == "Lease" and (one.get("spec") or {}).get("renewTime")]
    # in other namespaces anyone may write Leases
    registered = [one for one in leases if one["metadata"]["namespace"] == masters_of_leases.NAMESPACE]
    running = _running([one for one in map(masters_of_leases.read, registered) if one is not None])
    return Report(
        nodes={one["metadata"]["name"]: _node(one) for one in items if one["kind"] == "Node"},
        renewals={
            one["metadata"]["name"]: times.parse(one["spec"]["renewTime"])
            for one in leases
            if one["metadata"]["namespace"] == _NODE_LEASES
        },
        level=max((one.level for one in running), default=levels.FIRST),
        master_levels=Levels(
            max((one.release_levels.oldest for one in running), default=levels.FIRST),
            min((one.release_levels.newest for one in running), default=levels.FIRST),
        ),
    )


def _running(found: Sequence[Master]) -> list[Master]:
    """The masters that run, by the newest of their own clocks: that of the operator's machine may be wrong."""
    newest = max((one.renewed_at for one in found), default=0.0)
    return [one for one in found if one.is_current(newest)]


def _node(found: dict[str, Any]) -> NodeState:
    status = found.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return NodeState(ready=ready, version=str((status.get("nodeInfo") or {}).get("kubeletVersion") or ""))
