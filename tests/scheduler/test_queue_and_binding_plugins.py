"""The plugins at both ends of an attempt: PrioritySort, SchedulingGates and DefaultBinder."""

from typing import Any

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, Resource
from rota.scheduler.framework.registry import NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status
from rota.scheduler.plugins.default_binder import DefaultBinder
from rota.scheduler.plugins.priority_sort import PrioritySort
from rota.scheduler.plugins.scheduling_gates import SchedulingGates
from rota.testing import volumes as make

ANY: Any = None


def pod(**spec: Any) -> PodInfo:
    return PodInterner().pod({"metadata": {"name": "pod"}, "spec": {"containers": [], **spec}})


def test_higher_priority_comes_first_and_then_the_longer_wait() -> None:
    plugin = PrioritySort(NoArgs(), ANY)
    waiting = [
        (pod(priority=0), 1.0),
        (pod(priority=7), 9.0),
        (pod(priority=7), 3.0),
        (pod(priority=-1), 0.0),
    ]
    ordered = sorted(waiting, key=lambda each: plugin.sort_key(*each))
    assert [(each.priority, queued_at) for each, queued_at in ordered] == [(7, 3.0), (7, 9.0), (0, 1.0), (-1, 0.0)]


def test_a_pod_with_gates_is_held_back_and_the_gates_are_named() -> None:
    plugin = SchedulingGates(NoArgs(), ANY)
    assert plugin.pre_enqueue(pod(schedulingGates=[])).ok
    held = plugin.pre_enqueue(pod(schedulingGates=[{"name": "quota"}, {"name": "review"}]))
    assert (held.code, held.reasons) == (Code.UNRESOLVABLE, ("waiting for scheduling gates: [quota review]",))


def test_only_the_end_of_its_gates_wakes_a_gated_pod() -> None:
    (subscription,) = SchedulingGates(NoArgs(), ANY).events_to_register()
    assert subscription.event.resource is Resource.TARGET_POD
    assert subscription.event.actions is Action.UPDATE_POD_GATES_ELIMINATED


async def test_the_default_binder_binds_through_the_port_of_the_framework() -> None:
    bound: list[tuple[str, str]] = []

    class Port:
        async def bind(self, pod: PodInfo, node_name: str) -> Status:
            bound.append((pod.key, node_name))
            return SUCCESS

    class Handle:
        binder = Port()

    handle: Any = Handle()
    assert (await DefaultBinder(NoArgs(), handle).bind(CycleState(), make.pod("one"), "a")).ok
    assert bound == [("default/one", "a")]
