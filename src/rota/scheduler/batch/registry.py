"""The actions and plugins that exist, and one pass over a state."""

from collections.abc import Callable
from typing import Final, Protocol

from rota.scheduler.batch.actions.allocate import Allocate
from rota.scheduler.batch.actions.backfill import Backfill
from rota.scheduler.batch.actions.enqueue import Enqueue
from rota.scheduler.batch.actions.gangpreempt import GangPreempt
from rota.scheduler.batch.actions.gangreclaim import GangReclaim
from rota.scheduler.batch.actions.preempt import Preempt
from rota.scheduler.batch.actions.reclaim import Reclaim
from rota.scheduler.batch.actions.shuffle import Shuffle
from rota.scheduler.batch.conf import BatchConfiguration, Known
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.plugins.binpack import Binpack
from rota.scheduler.batch.plugins.capacity import Capacity
from rota.scheduler.batch.plugins.cdp import CooldownProtection
from rota.scheduler.batch.plugins.conformance import Conformance
from rota.scheduler.batch.plugins.deviceshare import DeviceShare
from rota.scheduler.batch.plugins.drf import DominantResourceFairness
from rota.scheduler.batch.plugins.extender import Extender
from rota.scheduler.batch.plugins.gang import Gang
from rota.scheduler.batch.plugins.network_topology_aware import NetworkTopologyAware
from rota.scheduler.batch.plugins.nodegroup import NodeGroup
from rota.scheduler.batch.plugins.nodeorder import NodeOrder
from rota.scheduler.batch.plugins.numa_aware import NumaAware
from rota.scheduler.batch.plugins.overcommit import Overcommit
from rota.scheduler.batch.plugins.pdb import DisruptionBudgets
from rota.scheduler.batch.plugins.planned_start import PlannedStart
from rota.scheduler.batch.plugins.predicates import Predicates
from rota.scheduler.batch.plugins.priority import Priority
from rota.scheduler.batch.plugins.proportion import Proportion
from rota.scheduler.batch.plugins.rescheduling import Rescheduling
from rota.scheduler.batch.plugins.resource_strategy_fit import ResourceStrategyFit
from rota.scheduler.batch.plugins.resourcequota import ResourceQuota
from rota.scheduler.batch.plugins.sla import Sla
from rota.scheduler.batch.plugins.task_topology import TaskTopology
from rota.scheduler.batch.plugins.tdm import TimeDivision
from rota.scheduler.batch.plugins.usage import Usage
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.states import Commit, State


class Action(Protocol):
    """An action of a session."""

    def run(self) -> None:
        """Do it."""


ACTIONS: Final = {
    each.name: each for each in (Enqueue, Allocate, Backfill, Preempt, Reclaim, GangPreempt, GangReclaim, Shuffle)
}
PLUGINS: Final[dict[str, type[BatchPlugin]]] = {
    each.name: each
    for each in (
        Binpack,
        Capacity,
        Conformance,
        CooldownProtection,
        DeviceShare,
        DisruptionBudgets,
        DominantResourceFairness,
        Extender,
        Gang,
        NetworkTopologyAware,
        NodeGroup,
        NodeOrder,
        NumaAware,
        Overcommit,
        PlannedStart,
        Predicates,
        Priority,
        Proportion,
        Rescheduling,
        ResourceQuota,
        ResourceStrategyFit,
        Sla,
        TaskTopology,
        TimeDivision,
        Usage,
    )
}
KNOWN: Final = Known({name: action.arguments for name, action in ACTIONS.items()}, PLUGINS)


def run(
    state: State,
    configuration: BatchConfiguration,
    *,
    on_commit: Callable[[Commit], None] | None = None,
    quick: bool = False,
) -> Session:
    """Run all actions of a configuration on a state, once; see `Session` for `on_commit` and `quick`."""
    session = Session(state, configuration, on_commit=on_commit, quick=quick)
    for name in configuration.actions:
        action: Action = ACTIONS[name](session)
        action.run()
    session.close()
    return session
