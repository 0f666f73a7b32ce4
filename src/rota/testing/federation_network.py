"""A federation on simulated machines: a control plane and pull members with agents, whose links a test can cut.

    with FederationNetwork(folder, ("m1", "m2", "m3")) as federation:
        async with federation.client() as client: ...
        federation.cut("m1", Direction.BOTH)
        federation.heal("m1")

Members reach only the control plane. Times are short: an agent stops exclusive workloads after four seconds without a
renewal, and the control plane starts them elsewhere about nine seconds after the last one. Needs root
(`rota.testing.hosts.missing`).
"""

import contextlib
import enum
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.client.verbs import Client
from rota.testing import process_cluster
from rota.testing.federations import client_of
from rota.testing.hosts import Host, Network
from rota.testing.process_cluster import Member

_CONTROL: Final = (
    *("federation", "up", "--port", "6443", "--every", "1s", "--threshold", "0", "--taint-eviction", "on"),
    *("--lease-grace", "4s", "--fence-margin", "4s", "--eviction-rate", "10"),
)
_AGENT: Final = ("--every", "1s", "--threshold", "0", "--renew-every", "1s", "--fence-after", "4s")
_COMMAND_S: Final = 300.0


class Direction(enum.Enum):
    """Which packets between a member and the control plane are lost."""

    BOTH = "both"
    TO_MEMBER = "to member"
    FROM_MEMBER = "from member"


class FederationNetwork:
    """The machines and their processes."""

    def __init__(self, folder: Path, members: Sequence[str]) -> None:
        self.folder: Final = folder
        self.names: Final = tuple(members)
        self.agents: Final[dict[str, Member]] = {}
        self.masters: Final[dict[str, Member]] = {}
        self.hosts: Final[dict[str, Host]] = {}
        self._processes: Final[list[Member]] = []
        self._network: Final = Network()
        self._exits: Final = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as exits:
            network = exits.enter_context(self._network)
            for name in ("control", *self.names):
                self.hosts[name] = network.host(name)
            exits.callback(self._end)
            try:
                self._start()
            except (AssertionError, subprocess.SubprocessError) as error:
                raise AssertionError(f"the federation did not start: {error}\n{self.outputs()}") from error
            self._exits.push(exits.pop_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exits.close()

    def client(self) -> contextlib.AbstractAsyncContextManager[Client]:
        """A client of the control plane, as its administrator."""
        return client_of(self._at("control") / "kubeconfig")

    def rota(self, *arguments: str, at: str = "") -> str:
        """Call a command of Rota at the control plane, or inside a member; returns its output."""
        environment = {**os.environ, "KUBECONFIG": str(self._at(at or "control") / "kubeconfig")}
        inside = self.hosts[at].inside if at else ()
        done = subprocess.run(
            (*inside, sys.executable, "-m", "rota", *arguments),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def cut(self, member: str, direction: Direction) -> None:
        """Lose packets between a member and the control plane."""
        for source, destination in self._ways(member, direction):
            self._network.block(source, destination)

    def heal(self, member: str, direction: Direction) -> None:
        """End what `cut` began."""
        for source, destination in self._ways(member, direction):
            self._network.unblock(source, destination)

    def outputs(self) -> str:
        """What all processes have said, for the report of a failure."""
        return "\n".join(f"--- {one.name}\n{one.output}" for one in self._processes)

    def _start(self) -> None:
        for name in self.names:
            started = Member(
                name,
                ("up", "--data", str(self._at(name)), "--port", "6443", "--workers", "1", "--run-as", "root"),
                folder=self._at(name),
                ready="Rota is up.",
                inside=self.hosts[name].inside,
                wait=False,
            )
            self.masters[name] = started
            self._processes.append(started)
        self.control = Member(
            "control",
            (*_CONTROL, "--data", str(self._at("control")), "--listen", self.hosts["control"].address),
            folder=self._at("control"),
            ready="The federation is up.",
            inside=self.hosts["control"].inside,
        )
        self._processes.append(self.control)
        for name in self.names:
            self.masters[name].wait_ready()
            self._register(name)

    def _ways(self, member: str, direction: Direction) -> list[tuple[Host, Host]]:
        control, host = self.hosts["control"], self.hosts[member]
        found = []
        if direction is not Direction.FROM_MEMBER:
            found.append((control, host))
        if direction is not Direction.TO_MEMBER:
            found.append((host, control))
        return found

    def _register(self, name: str) -> None:
        invitation, folder = self.folder / f"{name}.invitation", self.folder / f"agent-{name}"
        invitation.write_text(self.rota("federation", "token", name, "--label", f"name={name}"))
        register = ("federation", "register", name, "--invitation", str(invitation), "--data", str(folder))
        self.rota(*register, at=name)
        self.agents[name] = Member(
            f"agent {name}",
            ("federation-agent", "--data", str(folder), *_AGENT),
            folder=folder,
            ready="The agent of cluster",
            inside=self.hosts[name].inside,
        )
        self._processes.append(self.agents[name])

    def _at(self, name: str) -> Path:
        return self.folder / name

    def _end(self) -> None:
        for one in self._processes:
            one.kill()
        for name in self.names:
            process_cluster.end_tasks(self._at(name))
