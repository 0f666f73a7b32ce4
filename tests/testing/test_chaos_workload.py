"""The harness of the soak: it tells what it did not see from what did not happen."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.api import errors, meta
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Call, Interrupted
from rota.client.verbs import Client, Object
from rota.kit import system
from rota.testing import chaos_workload
from rota.testing.api import ApiServer
from rota.testing.chaos_workload import PODS, ChaosWorkload, Kind, Task, TooSlow
from rota.testing.schedulers import FaultyTransport

PATIENCE_S = 60.0


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made:
        yield made


@pytest.fixture
async def way(api: ApiServer) -> AsyncIterator[FaultyTransport]:
    made = FaultyTransport(InProcessTransport(api.app, clock=system.SystemClock()))
    yield made
    await made.close()


@pytest.fixture
async def worker(api: ApiServer) -> AsyncIterator["Worker"]:
    transport = InProcessTransport(api.app, clock=system.SystemClock())
    yield Worker(Client(transport))
    await transport.close()


class Worker:
    """Plays the cluster: runs a pod by leaving the marks that its container would leave."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def pod(self, name: str) -> Object:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await self.client.get(PODS, name, namespace="default")
                except errors.NotFound:
                    await asyncio.sleep(0.01)

    async def pods(self) -> list[Object]:
        return (await self.client.list(PODS, namespace="default")).items

    async def finish(self, pod: Object, phase: str = "Succeeded") -> None:
        patch = {"status": {"phase": phase}}
        await self.client.patch(PODS, meta.name(pod), patch, namespace="default", subresource="status")


def mark(folder: Path, name: str, uid: str, *words: str) -> None:
    (folder / f"{name}.{uid}").write_text("\n".join(words))


def ordeal_of(way: FaultyTransport, folder: Path) -> ChaosWorkload:
    return ChaosWorkload(Client(way), folder, [Task(name="t", kind=Kind.SUCCEEDS, seconds=1.0)])


async def test_a_pod_that_came_ran_and_went_unseen_is_a_submission_of_its_own(
    way: FaultyTransport, worker: Worker, tmp_path: Path
) -> None:
    """The answer to its creation is lost, and it is evicted before anything is listed."""
    folder = tmp_path / "marks"
    ordeal = ordeal_of(way, folder)
    unseen: list[str] = []

    async def lose_the_first(call: Call) -> None:
        if call.method == "POST" and not unseen:
            pod = await worker.pod("t-0")
            unseen.append(meta.uid(pod))
            mark(folder, "t-0", unseen[0], "begin")
            await worker.client.delete(PODS, "t-0", namespace="default", grace_period_s=0)
            raise Interrupted("the answer is lost")

    way.after = lose_the_first
    async with ordeal.running():
        async with asyncio.timeout(PATIENCE_S):
            while not unseen or not await worker.pods():  # noqa: ASYNC110 - tasks of the harness do it
                await asyncio.sleep(0.01)
        (pod,) = await worker.pods()
        assert meta.uid(pod) not in unseen
        mark(folder, meta.name(pod), meta.uid(pod), "begin", "end")
        await worker.finish(pod)
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
        known = {one.uid for name in ("t-0", "t-1") for one in ordeal.timeline.named(name)}
        assert known == {*unseen, meta.uid(pod)}
    ordeal.check()


async def test_a_pod_that_ran_twice_is_reported_with_all_that_happened_to_it(
    way: FaultyTransport, worker: Worker, tmp_path: Path
) -> None:
    folder = tmp_path / "marks"
    ordeal = ordeal_of(way, folder)
    async with ordeal.running():
        pod = await worker.pod("t-0")
        mark(folder, "t-0", meta.uid(pod), "begin", "begin", "end")
        await worker.finish(pod)
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
    with pytest.raises(AssertionError) as failed:
        ordeal.check()
    told = str(failed.value)
    assert f"t-0.{meta.uid(pod)} was run 2 times and may be run once" in told
    assert "--- t-0" in told
    assert "pod added" in told or "pod created" in told
    assert "Succeeded on no node" in told


async def test_a_run_of_a_pod_that_no_server_has_shown_is_reported(
    way: FaultyTransport, worker: Worker, tmp_path: Path
) -> None:
    folder = tmp_path / "marks"
    ordeal = ordeal_of(way, folder)
    async with ordeal.running():
        pod = await worker.pod("t-0")
        mark(folder, "t-0", meta.uid(pod), "begin", "end")
        mark(folder, "t-0", "unheard-of", "begin")
        await worker.finish(pod)
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
    with pytest.raises(AssertionError, match=r"t-0\.unheard-of ran, and no server has ever shown such a pod"):
        ordeal.check()


async def test_a_failure_without_a_disruption_is_reported(way: FaultyTransport, worker: Worker, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    ordeal = ordeal_of(way, folder)
    async with ordeal.running():
        pod = await worker.pod("t-0")
        mark(folder, "t-0", meta.uid(pod), "begin", "end")
        await worker.finish(pod, "Failed")
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
    with pytest.raises(AssertionError, match="t-0 failed, and nothing says that it was disrupted"):
        ordeal.check()


def two_of(way: FaultyTransport, folder: Path) -> ChaosWorkload:
    tasks = [Task(name=name, kind=Kind.SUCCEEDS, seconds=1.0) for name in ("t", "u")]
    return ChaosWorkload(Client(way), folder, tasks)


async def test_tasks_that_go_on_and_are_not_done_in_time_are_only_too_slow(
    way: FaultyTransport, worker: Worker, tmp_path: Path
) -> None:
    folder = tmp_path / "marks"
    ordeal = two_of(way, folder)
    async with ordeal.running():
        pod = await worker.pod("t-0")
        mark(folder, "t-0", meta.uid(pod), "begin", "end")
        await worker.finish(pod)
        await ordeal.reach(0.5, patience_s=PATIENCE_S)
        with pytest.raises(
            TooSlow, match=r"1 tasks are not done, such as \['u-0'\]; the last one ended \d+ s ago; load"
        ):
            await ordeal.reach(1.0, patience_s=0.1)


async def test_a_violation_is_none_of_slowness_nor_are_tasks_that_do_not_go_on(
    way: FaultyTransport, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "marks"
    ordeal = two_of(way, folder)
    async with ordeal.running():
        pod = await worker.pod("t-0")
        mark(folder, "t-0", meta.uid(pod), "begin", "begin", "end")
        await worker.finish(pod)
        await ordeal.reach(0.5, patience_s=PATIENCE_S)
        with pytest.raises(AssertionError, match="was run 2 times and may be run once") as failed:
            await ordeal.reach(1.0, patience_s=0.1)
        assert not isinstance(failed.value, TooSlow)
        ordeal.findings.problems.clear()
        mark(folder, "t-0", meta.uid(pod), "begin", "end")
        monkeypatch.setattr(chaos_workload, "_STUCK_S", 0.0)
        with pytest.raises(AssertionError, match="1 tasks are not done") as failed:
            await ordeal.reach(1.0, patience_s=0.1)
        assert not isinstance(failed.value, TooSlow)
