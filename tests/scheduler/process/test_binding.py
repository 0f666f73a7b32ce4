import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from rota.api.errors import ApiError
from rota.client import pods as pod_calls
from rota.client.pods import PODS, Binding
from rota.client.transports.transport import Call, Interrupted, TimedOut, TransportError
from rota.client.verbs import Client
from rota.columns.pods import PodInfo
from rota.scheduler.binding import bind_requests
from rota.scheduler.binding.bind_requests import BATCHES_AT_ONCE
from rota.scheduler.binding.binding_cycle import BindingCycles
from rota.scheduler.framework.events import Subscription
from rota.scheduler.framework.plugin_interfaces import PermitResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import PODS_TO_ACTIVATE, CycleState
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.observability.scheduler_metrics import SchedulerMetrics
from rota.scheduler.service import NODES, Scheduler
from rota.scheduler.status.pod_status import PodStatusWriter
from rota.testing.schedulers import SchedulingCluster

PROFILE = """
profiles:
- plugins: {multiPoint: {enabled: [%s]}}
"""


def profile(*names: str) -> str:
    return PROFILE % ", ".join(f"{{name: {name}}}" for name in names)


class Noting:
    """Takes down at which points it was called."""

    calls: ClassVar[list[str]]
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self.handle = handle

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append(f"{self.__class__.__name__} reserves")

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append(f"{self.__class__.__name__} unreserves")


class First(Noting):
    name: ClassVar[str] = "First"


class Second(Noting):
    name: ClassVar[str] = "Second"


class FailingPreBind:
    name: ClassVar[str] = "FailingPreBind"
    Args = NoArgs
    left: ClassVar[int]

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if type(self).left:
            type(self).left -= 1
            return Status(Code.ERROR, ("the volume is on fire",))
        return None


class Holding:
    """Permit: holds every pod whose name begins with `held` until told otherwise."""

    name: ClassVar[str] = "Holding"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        if pod.name.startswith("held"):
            return PermitResult(Status(Code.WAIT), timeout_s=20)
        for waiting in self._handle.waiting_pods:
            if pod.name == "lets-go":
                waiting.allow(self.name)
            elif pod.name == "sends-back":
                waiting.reject(self.name, "sent back")
        return PermitResult()


async def test_a_failed_binding_unreserves_in_reverse_and_the_pod_is_tried_again(cluster: SchedulingCluster) -> None:
    calls: list[str] = []
    First.calls = Second.calls = calls
    FailingPreBind.left = 1
    await cluster.add_node("n1")
    config = profile("First", "Second", "FailingPreBind")
    async with cluster.scheduling(config, plugins=(First, Second, FailingPreBind)) as scheduler:
        await cluster.add_pod("web")
        condition = await cluster.refused("web")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == "plugin FailingPreBind failed: the volume is on fire"
        await cluster.bound("web", "n1")
        attempt = ["First reserves", "Second reserves"]
        assert calls == [*attempt, "Second unreserves", "First unreserves", *attempt]
        assert [pod.name for pod in scheduler.cache.pods()] == ["web"]


async def test_a_pod_on_hold_counts_on_its_node_and_goes_on_when_it_is_allowed(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="2")
    async with cluster.scheduling(profile("Holding"), plugins=(Holding,)) as scheduler:
        await cluster.add_pod("held")
        await cluster.clock.advance(2)
        assert await cluster.node_of("held") == ""
        assert [waiting.pod.name for waiting in scheduler.waiting] == ["held"]
        assert [pod.name for pod in scheduler.cache.pods()] == ["held"]
        await cluster.add_pod("lets-go")
        await cluster.bound("held", "n1")
        assert not list(scheduler.waiting)


def send_back(scheduler: Scheduler) -> None:
    for waiting in list(scheduler.waiting):
        waiting.reject("Holding", "sent back")


async def nominated(cluster: SchedulingCluster, name: str) -> str:
    return str((await cluster.pod(name))["status"].get("nominatedNodeName") or "")


async def test_a_pod_on_hold_says_where_it_is_to_come_until_it_is_there_or_sent_back(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1", pods="3")
    async with cluster.scheduling(profile("Holding"), plugins=(Holding,)) as scheduler:
        await cluster.add_pod("held")
        await cluster.clock.advance(2)
        assert await nominated(cluster, "held") == "n1"
        # It counts on its node as assumed, not once more as one that is to come.
        assert not scheduler.queue.nominations()
        await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": True}})
        send_back(scheduler)
        await cluster.refused("held")
        assert await nominated(cluster, "held") == ""
        await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": False}})
        await cluster.clock.advance(12)
        assert await nominated(cluster, "held") == "n1"
        await cluster.add_pod("lets-go")
        await cluster.bound("held", "n1")
        assert await nominated(cluster, "held") == ""


async def test_a_pod_that_nothing_holds_is_bound_without_a_word_before(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    async with cluster.scheduling(client=client):
        await cluster.add_pod("web")
        await cluster.bound("web", "n1")
    assert not [call for call in transport.calls if call.method == "PATCH" and call.path.endswith("/status")]


async def test_where_a_pod_is_to_come_is_taken_back_though_the_answer_to_saying_so_was_lost(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()

    async def lose(call: Call) -> None:
        if isinstance(call.body, bytes) and b'"nominatedNodeName":"n1"' in call.body:
            raise TimedOut(f"{call}: answer lost")

    transport.after = lose
    async with cluster.scheduling(profile("Holding"), plugins=(Holding,), client=client) as scheduler:
        await cluster.add_pod("held")
        await cluster.clock.advance(2)
        assert await nominated(cluster, "held") == "n1"
        await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": True}})
        send_back(scheduler)
        await cluster.refused("held")
        assert await nominated(cluster, "held") == ""


async def test_a_pod_on_hold_is_rejected_by_the_plugin_or_by_time(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling(profile("Holding"), plugins=(Holding,)) as scheduler:
        await cluster.add_pod("held-1")
        await cluster.clock.advance(2)
        await cluster.add_pod("sends-back")
        assert (await cluster.refused("held-1"))["message"] == "sent back"
        await cluster.add_pod("held-2")
        message = (await cluster.refused("held-2"))["message"]
        assert message == 'rejected due to timeout after waiting at plugin "Holding"'
        assert {pod.name for pod in scheduler.cache.pods()} <= {"sends-back", "held-1", "held-2"}


async def test_a_pod_that_goes_while_it_is_on_hold_leaves_nothing_behind(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling(profile("Holding"), plugins=(Holding,)) as scheduler:
        await cluster.add_pod("held")
        await cluster.clock.advance(2)
        await cluster.client.delete(PODS, "held", namespace="default", grace_period_s=0)
        await cluster.gone(PODS, "held", "default")
        await cluster.clock.advance(1)
        assert (len(scheduler.queue), list(scheduler.cache.pods()), list(scheduler.waiting)) == (0, [], [])


async def test_a_lost_race_is_tried_on_the_next_best_node_at_once(cluster: SchedulingCluster) -> None:
    for name in ("n1", "n2"):
        await cluster.add_node(name, cpu="1")
    await cluster.add_pod("rival", cpu="1", schedulerName="rival")
    client, transport = cluster.meddling()
    raced: list[str] = []

    async def be_faster(call: Call) -> None:
        if call.path.endswith("/bindingbatches") and not raced:
            assert isinstance(call.body, bytes)
            raced.append("n1" if b'"name":"n1"' in call.body else "n2")
            await pod_calls.bind(cluster.client, Binding(namespace="default", pod="rival", node=raced[0]))

    transport.before = be_faster
    async with cluster.scheduling(client=client) as scheduler:
        await cluster.add_pod("web", cpu="1")
        assert {await cluster.bound("web"), *raced} == {"n1", "n2"}
        assert scheduler.metrics.value("lost_races_total") == 1
        assert scheduler.metrics.value("schedule_attempts_total", result="error", profile="default-scheduler") is None


async def test_a_binding_whose_answer_is_lost_counts_if_the_pod_is_bound(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()

    async def lose(call: Call) -> None:
        if call.path.endswith("/bindingbatches"):
            raise TimedOut("no answer")

    transport.after = lose
    async with cluster.scheduling(client=client) as scheduler:
        await cluster.add_pod("web")
        await cluster.bound("web", "n1")
        assert await cluster.said("web", "Scheduled")
        assert scheduler.metrics.value("schedule_attempts_total", result="error", profile="default-scheduler") is None


async def test_a_binding_that_never_arrived_is_tried_again(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    lost: list[Call] = []

    async def lose(call: Call) -> None:
        if call.path.endswith("/bindingbatches") and len(lost) < 2:
            lost.append(call)
            raise Interrupted("the line is down")

    transport.before = lose
    async with cluster.scheduling(client=client) as scheduler:
        await cluster.add_pod("web")
        await cluster.bound("web", "n1")
        assert len(lost) == 2
        await cluster.clock.advance(1)
        assert not scheduler.cache.assumed


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("batches", [True, False])
async def test_no_pod_of_a_request_is_lost_whatever_its_sending_raises(
    cluster: SchedulingCluster, arrives: bool, batches: bool
) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    raised: list[Call] = []

    async def crash(call: Call) -> None:
        if call.method == "POST" and call.path.rpartition("/")[2] in {"bindingbatches", "binding"} and len(raised) < 3:
            raised.append(call)
            raise ValueError("not an answer at all")

    if arrives:
        transport.after = crash
    else:
        transport.before = crash
    async with cluster.scheduling(client=client) as scheduler:
        scheduler.bindings.batches = batches
        for number in range(5):
            await cluster.add_pod(f"web-{number}")
        for number in range(5):
            await cluster.bound(f"web-{number}", "n1")
            assert await cluster.said(f"web-{number}", "Scheduled")
        assert raised
        assert not scheduler.cache.assumed


async def test_an_answer_with_too_few_verdicts_loses_no_pod(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add_node("n1")

    async def forgetful(
        client: Client, wanted: Sequence[Binding], **more: Any
    ) -> list[ApiError | TransportError | None]:
        return (await bind_many(client, wanted, **more))[1:]

    bind_many = pod_calls.bind_many
    monkeypatch.setattr(pod_calls, "bind_many", forgetful)
    async with cluster.scheduling():
        for number in range(3):
            await cluster.add_pod(f"web-{number}")
        for number in range(3):
            await cluster.bound(f"web-{number}", "n1")
            assert await cluster.said(f"web-{number}", "Scheduled")


async def test_an_unread_result_does_not_block_others(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        made = [await cluster.add_pod(f"web-{number}", schedulerName="nobody") for number in range(2)]
        read = scheduler.cache.interner.pod_from_wire
        infos = [read(msgspec.json.encode(one)) for one in made]
        answers: list[Status] = []

        def stumble(status: Status) -> None:
            raise RuntimeError("no thanks")

        scheduler.bindings.submit(infos[0], "n1", stumble)
        scheduler.bindings.submit(infos[1], "n1", answers.append)
        await cluster.bound("web-1", "n1")
        assert [answer.ok for answer in answers] == [True]


async def test_a_binding_cycle_that_raises_gives_its_pod_back(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raising(notes: PodStatusWriter, uid: str) -> None:
        raise RuntimeError("no idea")

    FailingPreBind.left = 0
    await cluster.add_node("n1")
    async with cluster.scheduling(profile("FailingPreBind"), plugins=(FailingPreBind,)) as scheduler:
        with monkeypatch.context() as patched:
            patched.setattr(PodStatusWriter, "settled", raising)
            await cluster.add_pod("web")
            assert (await cluster.refused("web"))["reason"] == "SchedulerError"
        await cluster.bound("web", "n1")
        await cluster.clock.advance(1)
        assert not scheduler.cache.assumed


@pytest.mark.parametrize("fails", [True, False])
async def test_a_pod_is_not_left_behind_by_what_raises_at_the_end_of_its_binding(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    FailingPreBind.left = int(fails)
    await cluster.add_node("n1")
    async with cluster.scheduling(profile("FailingPreBind"), plugins=(FailingPreBind,)) as scheduler:
        raised: list[str] = []

        def raising(figures: SchedulerMetrics, result: str, profile: str, took_s: float) -> None:
            raised.append(result)
            raise RuntimeError("no idea")

        with monkeypatch.context() as patched:
            patched.setattr(SchedulerMetrics, "attempted", raising)
            await cluster.add_pod("web")
            await cluster.clock.advance(0.1)
            assert raised == (["error"] if fails else ["scheduled"])
        await cluster.bound("web", "n1")
        await cluster.clock.advance(1)
        assert not scheduler.cache.assumed
        assert not len(scheduler.queue)


@pytest.mark.parametrize("arrives", [True, False])
async def test_resources_stay_reserved_until_the_outcome_of_a_binding_is_known(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    await cluster.add_node("n1", pods="1")
    client, transport = cluster.meddling()
    dark = True

    async def lose(call: Call) -> None:
        about_web = call.method == "GET" and call.path.endswith("/pods/web")
        if dark and (about_web or call.path.endswith("/bindingbatches")):
            raise Interrupted("the line is down")

    if arrives:
        transport.after = lose
    else:
        transport.before = lose
    async with cluster.scheduling(client=client) as scheduler:
        forgotten: list[str] = []
        forget = scheduler.cache.forget

        def noting(uid: str) -> PodInfo | None:
            forgotten.append(uid)
            return forget(uid)

        monkeypatch.setattr(scheduler.cache, "forget", noting)
        await cluster.add_pod("web")
        await cluster.clock.advance(60)
        assert not forgotten
        if arrives:
            assert await cluster.said("web", "Scheduled"), "the watch has told"
            return
        assert list(scheduler.cache.assumed.values()) == [False]
        dark = False
        await cluster.bound("web", "n1")
        assert len(forgotten) == 1


async def test_pods_that_cannot_be_read_keep_no_others_from_being_bound(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="20")
    client, transport = cluster.meddling()
    lost: list[Call] = []

    async def lose(call: Call) -> None:
        about_web = call.method == "GET" and "/pods/web-" in call.path
        if about_web or (call.path.endswith("/bindingbatches") and len(lost) < BATCHES_AT_ONCE):
            lost.extend([] if about_web else [call])
            raise Interrupted("the line is down")

    transport.before = lose
    async with cluster.scheduling(client=client) as scheduler:
        for number in range(BATCHES_AT_ONCE):
            await cluster.add_pod(f"web-{number}")
            await cluster.clock.advance(0.1)
        await cluster.add_pod("other")
        await cluster.bound("other", "n1")
        assert len(lost) == len(scheduler.cache.assumed) == BATCHES_AT_ONCE


async def test_a_server_without_batches_gets_single_bindings(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    async with cluster.scheduling(client=client) as scheduler:
        scheduler.bindings.batches = False
        for number in range(5):
            await cluster.add_pod(f"web-{number}")
        for number in range(5):
            await cluster.bound(f"web-{number}", "n1")
    paths = [call.path for call in transport.calls if "binding" in call.path and call.method == "POST"]
    assert len(paths) == 5
    assert all(path.endswith("/binding") for path in paths)


async def _until(cluster: SchedulingCluster, condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await cluster.until(holds)


async def test_on_a_stock_server_a_node_that_was_filled_meanwhile_is_not_bound_to(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_requests, "SINGLES_AT_ONCE", 1)
    await cluster.add_node("n0", labels={"small": "yes"}, cpu="100m")
    for name in ("n1", "n2"):
        await cluster.add_node(name, cpu="1")
    await cluster.add_pod("rival", cpu="1", schedulerName="rival")
    client, transport = cluster.meddling()
    held, go_on = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        if call.path.endswith("/pods/first/binding"):
            held.set()
            await go_on.wait()

    transport.before = hold
    async with cluster.scheduling(client=client) as scheduler:
        scheduler.bindings.batches = False
        await cluster.add_pod("first", cpu="100m", nodeSelector={"small": "yes"})
        await _until(cluster, held.is_set)
        await cluster.add_pod("web", cpu="1")
        await _until(cluster, lambda: len(scheduler.bindings) == 1)
        (chosen,) = {pod.node_name for pod in scheduler.cache.pods() if pod.name == "web"}
        await pod_calls.bind(cluster.client, Binding(namespace="default", pod="rival", node=chosen))
        await _until(cluster, lambda: any(pod.name == "rival" for pod in scheduler.cache.pods()))
        go_on.set()
        assert {await cluster.bound("web"), chosen} == {"n1", "n2"}
        assert scheduler.metrics.value("lost_races_total") == 1
    assert sum(call.path.endswith("/pods/web/binding") for call in transport.calls) == 1


class Calling:
    """Has the pod named `called` tried again as soon as the pod named `caller` has a node."""

    name: ClassVar[str] = "Calling"
    Args = NoArgs
    open: ClassVar[bool]

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._waiting: set[str] = set()

    def events_to_register(self) -> tuple[Subscription, ...]:
        return ()

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        if pod.name == "called" and not self.open:
            self._waiting.add(pod.uid)
            return PermitResult(Status(Code.UNSCHEDULABLE, ("not without the other",)))
        if pod.name == "caller":
            type(self).open = True
            state.write(PODS_TO_ACTIVATE, self._waiting)
        return PermitResult()


async def test_a_plugin_can_have_another_pod_tried_at_once(cluster: SchedulingCluster) -> None:
    Calling.open = False
    await cluster.add_node("n1")
    async with cluster.scheduling(profile("Calling"), plugins=(Calling,)):
        await cluster.add_pod("called")
        assert (await cluster.refused("called"))["message"] == "not without the other"
        await cluster.clock.advance(20)
        assert await cluster.node_of("called") == ""
        await cluster.add_pod("caller")
        await cluster.bound("called", "n1")


async def test_what_is_reserved_is_given_back_whatever_raises_before_the_binding_begins(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    First.calls = calls

    def raising(cycles: BindingCycles, taken: object) -> None:
        raise RuntimeError("no idea")

    await cluster.add_node("n1")
    async with cluster.scheduling(profile("First"), plugins=(First,)) as scheduler:
        with monkeypatch.context() as patched:
            patched.setattr(BindingCycles, "start", raising)
            await cluster.add_pod("web")
            assert (await cluster.refused("web"))["reason"] == "SchedulerError"
            assert calls[:2] == ["First reserves", "First unreserves"]
            assert not scheduler.cache.assumed
        await cluster.bound("web", "n1")


async def test_the_end_of_a_binding_does_not_hide_the_next_one_of_the_pod(cluster: SchedulingCluster) -> None:
    """After a lost race the next task begins before the event loop tells of the end of the first."""
    for name in ("n1", "n2"):
        await cluster.add_node(name, cpu="1")
    FailingPreBind.left = 0
    await cluster.add_pod("rival", cpu="1", schedulerName="rival")
    client, transport = cluster.meddling()
    raced: list[str] = []
    held, go_on = asyncio.Event(), asyncio.Event()

    async def be_faster(call: Call) -> None:
        if not call.path.endswith(("/bindingbatches", "/binding")):
            return
        if raced:
            held.set()
            await go_on.wait()
            return
        assert isinstance(call.body, bytes)
        raced.append("n1" if b'"name":"n1"' in call.body else "n2")
        await pod_calls.bind(cluster.client, Binding(namespace="default", pod="rival", node=raced[0]))

    transport.before = be_faster
    async with cluster.scheduling(profile("FailingPreBind"), plugins=(FailingPreBind,), client=client) as scheduler:
        await cluster.add_pod("web", cpu="1")
        while not held.is_set():
            await cluster.clock.advance(0.1)
        assert len(scheduler.attempts.binding._tasks) == 1
        go_on.set()
        assert {await cluster.bound("web"), *raced} == {"n1", "n2"}
