"""What a session works on (`State`), and what it hands over as soon as it is decided (`Commit`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.columns.cluster import Cluster
from rota.scheduler.batch.hypernodes import HyperNodes
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.numa_topologies import NumaTopology
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.quiet_groups import QuietSums
from rota.scheduler.batch.run_times import RunTimes
from rota.scheduler.batch.tasks import Task

#: Sends a request to a program outside: address, body, and time limit in seconds; raises OSError.
Ask = Callable[[str, bytes, float], bytes]


@dataclass(slots=True, kw_only=True)
class State:
    """What a session works on; actions change it."""

    nodes: NodeTable
    #: The same nodes with their pods, for filters and scores of the stock scheduler.
    cluster: Cluster
    jobs: dict[str, Job]
    queues: dict[str, Queue]
    hypernodes: HyperNodes
    #: The groups for which something may have to be decided, in the order of their keys; None for all groups.
    active: Mapping[str, Job] | None = None
    #: By queue, what the other groups count for.
    quiet: Mapping[str, QuietSums] = field(default_factory=dict)
    #: By namespace, what quotas allow and what is used of them.
    quotas: Mapping[str, Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]] = field(default_factory=dict)
    #: PodDisruptionBudgets.
    budgets: Sequence[Mapping[str, Any]] = ()
    #: The measured usage of nodes, by name; empty without metrics.
    usage: Mapping[str, NodeUsage] = field(default_factory=dict)
    #: The NUMA topology of nodes, by name.
    numa: Mapping[str, NumaTopology] = field(default_factory=dict)
    #: When work that plugins do at intervals was last done, by its name; outlives the session.
    done_at: dict[str, float] = field(default_factory=dict)
    #: How long groups run.
    run_times: RunTimes = field(default_factory=RunTimes)
    #: By group with a planned start, when it was first planned; outlives the session.
    planned: dict[str, float] = field(default_factory=dict)
    #: Groups that pods were evicted for and that are not bound yet, the longest first; outlives the session. None if
    #: sessions do not follow each other: then nominations of pods tell.
    made_room: dict[str, None] | None = None
    #: None if nothing outside may be asked.
    ask: Ask | None = None
    #: Seconds since the epoch.
    now: float = 0.0


@dataclass(slots=True)
class Commit:
    """Bindings and evictions that belong together."""

    #: The group whose pods are bound; None if only pods are evicted.
    job: Job | None = None
    #: Whether the group was below its minimum, so that its pods must be bound all or not at all.
    whole: bool = False
    #: Pods with their nodes.
    bindings: list[tuple[Task, str]] = field(default_factory=list)
    #: Pods with the reason.
    evictions: list[tuple[Task, str]] = field(default_factory=list)
