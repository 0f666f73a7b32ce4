"""From decision to binding: order, refusal, giving back, waiting, and running together."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

import pytest

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework import binding_points
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PermitResult, PreBindPlan, points_of
from rota.scheduler.framework.registry import Enabled, Handle, NoArgs, ProfileSpec, Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Code, Status, unschedulable
from rota.testing.clusters import make_pod

FULL = unschedulable("no licence left")
POD = PodInterner().pod(make_pod("p"))


class Recorder:
    """A plugin at every point after the decision; what it answers is set per test."""

    name: ClassVar[str] = ""
    Args = NoArgs
    answers: ClassVar[dict[str, Any]] = {}
    calls: ClassVar[list[str]] = []

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def _answer(self, point: str, otherwise: Any) -> Any:
        self.calls.append(f"{self.name}.{point}")
        answer = self.answers.get(point, otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer("reserve", SUCCESS)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("unreserve", None)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer("permit", PermitResult())

    def pre_bind_plan(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer("plan", PreBindPlan())

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer("pre_bind", SUCCESS)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer("bind", SUCCESS)

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("post_bind", None)


def framework(**answers: dict[str, Any]) -> tuple[Framework, list[str]]:
    calls: list[str] = []
    classes: list[Any] = [
        type(name, (Recorder,), {"name": name, "answers": given, "calls": calls}) for name, given in answers.items()
    ]
    points = {
        point: tuple(Enabled(each.name) for each in classes if point in points_of(each)) for point in ExtensionPoint
    }
    return Framework(ProfileSpec(points=points), Registry(classes)), calls


async def together(calls: Sequence[Coroutine[Any, Any, Status]]) -> Sequence[Status]:
    return await asyncio.gather(*calls)


def test_reserve_stops_at_the_first_refusal() -> None:
    built, calls = framework(A={}, B={"reserve": FULL}, C={})
    assert binding_points.reserve(built, CycleState(), POD, "n") == FULL.by("B")
    assert calls == ["A.reserve", "B.reserve"]


def test_unreserve_runs_for_all_in_reverse_and_survives_faults() -> None:
    built, calls = framework(A={}, B={"unreserve": RuntimeError("stuck")}, C={})
    (fault,) = binding_points.unreserve(built, CycleState(), POD, "n")
    assert (fault.code, fault.plugin) == (Code.ERROR, "B")
    assert calls == ["C.unreserve", "B.unreserve", "A.unreserve"]


def test_permit_collects_waits_and_caps_them() -> None:
    wait = Status(Code.WAIT)
    built, _ = framework(
        A={"permit": PermitResult(wait, 5.0)}, B={"permit": PermitResult(wait, 1e9)}, C={"permit": PermitResult()}
    )
    permission = binding_points.permit(built, CycleState(), POD, "n")
    assert permission.status.code is Code.WAIT
    assert permission.waits_s == {"A": 5.0, "B": binding_points.LONGEST_WAIT_S}


def test_a_rejection_beats_a_wait_and_ends_permit() -> None:
    built, calls = framework(A={"permit": PermitResult(Status(Code.WAIT), 5.0)}, B={"permit": PermitResult(FULL)}, C={})
    assert binding_points.permit(built, CycleState(), POD, "n").status == FULL.by("B")
    assert calls == ["A.permit", "B.permit"]


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_raising_plugin_is_an_error_under_its_name(point: str) -> None:
    built, _ = framework(A={point: KeyError("gone")})
    answer = getattr(binding_points, point)(built, CycleState(), POD, "n")
    status = answer if isinstance(answer, Status) else answer.status
    assert (status.code, status.plugin) == (Code.ERROR, "A")


async def test_pre_bind_runs_neighbours_together_where_they_allow_it() -> None:
    parallel = PreBindPlan(parallel=True)
    built, calls = framework(
        A={"plan": parallel}, B={"plan": parallel}, C={"plan": PreBindPlan(SKIP)}, D={}, E={"plan": parallel}
    )
    groups: list[int] = []

    async def counted(coroutines: Sequence[Coroutine[Any, Any, Status]]) -> Sequence[Status]:
        groups.append(len(coroutines))
        return await together(coroutines)

    assert (await binding_points.pre_bind(built, CycleState(), POD, "n", run_together=counted)).ok
    assert groups == [2, 1]
    assert [call for call in calls if call.endswith("pre_bind")] == [
        "A.pre_bind",
        "B.pre_bind",
        "D.pre_bind",
        "E.pre_bind",
    ]


async def test_a_failing_pre_bind_ends_the_binding() -> None:
    built, calls = framework(A={"pre_bind": FULL}, B={})
    assert await binding_points.pre_bind(built, CycleState(), POD, "n", run_together=together) == FULL.by("A")
    assert "B.pre_bind" not in calls
    built, _ = framework(A={"plan": PreBindPlan(FULL)})
    assert await binding_points.pre_bind(built, CycleState(), POD, "n", run_together=together) == FULL.by("A")


async def test_the_first_bind_plugin_that_does_not_skip_decides() -> None:
    built, calls = framework(A={"bind": SKIP}, B={}, C={})
    assert (await binding_points.bind(built, CycleState(), POD, "n")).ok
    assert calls == ["A.bind", "B.bind"]
    built, _ = framework(A={"bind": SKIP})
    assert (await binding_points.bind(built, CycleState(), POD, "n")).code is Code.ERROR


async def test_post_bind_failures_are_returned_and_change_nothing() -> None:
    built, calls = framework(A={"post_bind": RuntimeError("log full")}, B={})
    (fault,) = await binding_points.post_bind(built, CycleState(), POD, "n")
    assert fault.plugin == "A"
    assert calls == ["A.post_bind", "B.post_bind"]
