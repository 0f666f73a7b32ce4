"""Reserve, Permit, PreBind, Bind and PostBind, by kube-scheduler's rules.

Every function returns a status; an exception of a plugin becomes a status. Waiting and concurrency are the caller's:
Permit returns which plugins wait and for how long, and PreBind takes a function that runs coroutines concurrently.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework import stopwatch
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PermitResult, PreBindPlan
from rota.scheduler.framework.runtime import Framework, guarded
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status

#: The longest time that a plugin may hold a pod.
LONGEST_WAIT_S = 15 * 60.0

#: Runs coroutines concurrently and returns their results in order; `asyncio.gather` in production.
RunTogether = Callable[[Sequence[Coroutine[Any, Any, Status]]], Awaitable[Sequence[Status]]]

ALL_SKIPPED = Status(Code.ERROR, ("all bind plugins skipped the pod; enable DefaultBinder",))


def reserve(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Run Reserve in order; the first refusal ends it, and the caller then calls `unreserve`."""
    began, answer = framework.stopwatch.start(), SUCCESS
    for plugin in framework.at(ExtensionPoint.RESERVE):
        answer = guarded(plugin.name, plugin.reserve, state, pod, node_name)
        if not answer.ok:
            break
    framework.stopwatch.observe_duration(stopwatch.RESERVE, answer.code, began)
    return answer if not answer.ok else SUCCESS


def unreserve(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
    """Run Unreserve of all Reserve plugins in reverse order; returns the failures, which do not stop the others."""
    began = framework.stopwatch.start()
    answers = [
        guarded(plugin.name, plugin.unreserve, state, pod, node_name)
        for plugin in reversed(framework.at(ExtensionPoint.RESERVE))
        if hasattr(plugin, "unreserve")
    ]
    framework.stopwatch.observe_duration(stopwatch.UNRESERVE, Code.SUCCESS, began)
    return [answer for answer in answers if not answer.ok]


@dataclass(frozen=True, slots=True)
class Permission:
    """The result of all Permit plugins: allow, reject, or wait for some of them."""

    status: Status = SUCCESS
    #: How long each plugin that asked to wait may hold the pod; after the shortest, the pod is rejected.
    waits_s: dict[str, float] = field(default_factory=dict)


def permit(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Permission:
    """Run Permit; a rejection or a failure ends it, a wait does not."""
    began = framework.stopwatch.start()
    permission = _permission(framework, state, pod, node_name)
    framework.stopwatch.observe_duration(stopwatch.PERMIT, permission.status.code, began)
    return permission


def _permission(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Permission:
    waits: dict[str, float] = {}
    for plugin in framework.at(ExtensionPoint.PERMIT):
        try:
            result: PermitResult = plugin.permit(state, pod, node_name)
            answer = result.status
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return Permission(statuses.fault(error, plugin=plugin.name))
        if answer.code is Code.WAIT:
            waits[plugin.name] = min(result.timeout_s, LONGEST_WAIT_S)
        elif not answer.ok:
            return Permission(answer.by(plugin.name))
    return Permission(Status(Code.WAIT) if waits else SUCCESS, waits)


def nothing_to_prepare(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> bool:
    """Whether every PreBind plugin has nothing to do; a plugin that raises has work to do."""
    for plugin in framework.at(ExtensionPoint.PRE_BIND):
        try:
            if not _plan(plugin, state, pod, node_name).status.skipped:
                return False
        except Exception:  # noqa: BLE001 - plugins are other people's code; `pre_bind` tells what it raised
            return False
    return True


async def pre_bind(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str, *, run_together: RunTogether
) -> Status:
    """Run PreBind: adjacent plugins that allow it concurrently, all others in order; a failure ends it."""
    planned: list[tuple[Any, bool]] = []
    for plugin in framework.at(ExtensionPoint.PRE_BIND):
        try:
            plan = _plan(plugin, state, pod, node_name)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=plugin.name)
        if plan.status.skipped:
            continue
        if not plan.status.ok:
            return plan.status.by(plugin.name)
        planned.append((plugin, plan.parallel))
    for parallel, members in groupby(planned, key=lambda each: each[1]):
        calls = (_awaited(plugin.name, plugin.pre_bind, state, pod, node_name) for plugin, _ in members)
        if parallel:
            refusal = next((answer for answer in await run_together(list(calls)) if not answer.ok), None)
        else:
            refusal = None
            for call in calls:
                answer = await call
                if not answer.ok:
                    refusal = answer
                    break
        if refusal is not None:
            return refusal
    return SUCCESS


async def bind(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Run Bind plugins in order; the first that does not skip decides."""
    for plugin in framework.at(ExtensionPoint.BIND):
        answer = await _awaited(plugin.name, plugin.bind, state, pod, node_name)
        if not answer.skipped:
            return answer
    return ALL_SKIPPED


async def post_bind(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
    """Run PostBind plugins; returns the failures, which change nothing."""
    began = framework.stopwatch.start()
    answers = [
        await _awaited(plugin.name, plugin.post_bind, state, pod, node_name)
        for plugin in framework.at(ExtensionPoint.POST_BIND)
    ]
    framework.stopwatch.observe_duration(stopwatch.POST_BIND, Code.SUCCESS, began)
    return [answer for answer in answers if not answer.ok]


def _plan(plugin: Any, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPlan:
    if not hasattr(plugin, "pre_bind_plan"):
        return PreBindPlan()
    plan: PreBindPlan = plugin.pre_bind_plan(state, pod, node_name)
    return plan


async def _awaited(name: str, call: Callable[..., Awaitable[Status | None]], *args: Any) -> Status:
    try:
        answer = await call(*args)
    except Exception as error:  # noqa: BLE001 - plugins are other people's code
        return statuses.fault(error, plugin=name)
    return SUCCESS if answer is None or answer.ok else answer.by(name)
