"""What the machines of a cluster have, as it was read from them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.kit.levels import Levels
from rota.lifecycle.cluster_spec import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """A member on its machine."""

    #: Why the machine cannot be reached; empty if it can.
    fault: str = ""
    #: Whether the member has a folder there; `cluster` is the cluster that it belongs to.
    placed: bool = False
    cluster: str = ""
    #: The installed releases, and the one in use.
    releases: frozenset[str] = frozenset()
    current: str = ""
    #: Whether its process runs, with which command, and whether it serves requests (a master).
    running: bool = False
    digest: str = ""
    serving: bool = False
    #: Whether the process has been started since `current` was set.
    started_release: str = ""
    #: The release that ran before, and those from which no process runs.
    former_release: str = ""
    idle_releases: frozenset[str] = frozenset()
    has_keys: bool = False
    #: A worker's: whether it has credentials of the cluster.
    joined: bool = False
    #: The machine's Python, and whether systemd runs there.
    python: str = ""
    systemd: bool = False

    @property
    def reachable(self) -> bool:
        """Whether the machine answers."""
        return not self.fault


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A worker as the masters see it."""

    ready: bool
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All machines, and the nodes that the masters know."""

    #: Everything that was ever placed on a machine and not removed, and the members of the file.
    members: Mapping[str, MemberState]
    #: Members that are on machines, by their journal; they may be in the file no longer.
    inventory: Mapping[str, Member] = field(default_factory=dict)
    #: The nodes; None if no master answers.
    nodes: Mapping[str, NodeState] | None = None
    #: The level of the cluster, and the levels at which all running masters can work; None if no master answers.
    level: int | None = None
    master_levels: Levels | None = None

    def state(self, name: str) -> MemberState:
        """The state of a member; that of an empty machine if it was never seen."""
        return self.members.get(name) or MemberState()


def read_member(found: Mapping[str, Any]) -> MemberState:
    """The answer of the program on the host."""
    return MemberState(
        placed=found["placed"],
        cluster=found["cluster"],
        releases=frozenset(found["releases"]),
        current=found["current"],
        running=found["running"],
        digest=found["digest"],
        serving=found["serving"],
        started_release=found["started_release"],
        former_release=found["former_release"],
        idle_releases=frozenset(found["idle_releases"]),
        has_keys=found["has_keys"],
        joined=found["joined"],
        python=found["python"],
        systemd=found["systemd"],
    )
