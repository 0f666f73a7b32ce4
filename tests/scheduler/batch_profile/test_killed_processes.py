"""A scheduler process that is killed while it binds a gang leaves no gang in part, and no node is oversold.

The gang does not fit a transaction, so that it is bound in portions. The process is killed with SIGKILL once a random
number of its pods is bound; in half of the rounds a pod of another user then takes a place that the rest of the gang
needs. `test_killed_leaders` does the same between any two requests, in virtual time and more often.
"""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rota.client import client_factory
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.kit import system
from rota.scheduler.batch import binding_plans
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.batches import GROUP, make_group, make_member
from rota.testing.clusters import make_node, make_pod
from rota.testing.process_cluster import ProcessCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NODES = ("", "v1", "nodes")
#: As many pods as nodes, and more than a transaction holds: each pod takes a key, and each node two.
SIZE = 60
CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


@contextlib.contextmanager
def scheduler(config: Path, conf: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A scheduler of its own, which ends at the latest with the block."""
    command = [sys.executable, "-m", "rota", "scheduler", "--kubeconfig", str(config), "--no-elect"]
    process = subprocess.Popen([*command, "--batch-config", str(conf)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)


async def until(condition: Callable[[], Awaitable[bool]], what: str, *, pause_s: float = 0.1) -> None:
    try:
        async with asyncio.timeout(300):
            while not await condition():  # noqa: ASYNC110 - what is waited for happens in other processes
                await asyncio.sleep(pause_s)
    except TimeoutError:
        raise AssertionError(f"not within 300 s: {what}") from None


async def placed(client: Client, gang: str) -> dict[str, str]:
    """The nodes of a gang's pods that are bound and stay."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in (await client.list(PODS, namespace="default")).items
        if (pod["metadata"].get("annotations") or {}).get(GROUP) == gang
        and pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
    }


async def sweep(client: Client, *, all_pods: bool = False) -> None:
    """End terminating pods, as a worker would, or all pods."""
    for pod in (await client.list(PODS, namespace="default")).items:
        if all_pods or pod["metadata"].get("deletionTimestamp"):
            await client.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_s=0)


async def create_gang(client: Client, gang: str) -> None:
    await client.create(POD_GROUPS, make_group(gang, SIZE))
    await asyncio.gather(*(client.create(PODS, make_member(gang, number)) for number in range(SIZE)))


def bound_at_least(client: Client, gang: str, number: int) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return len(await placed(client, gang)) >= number

    return condition


def settled(client: Client, gang: str) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        await sweep(client)
        group = await client.get(POD_GROUPS, gang, namespace="default")
        return not binding_plans.is_planned(group) and len(await placed(client, gang)) in (0, SIZE)

    return condition


async def crowd(client: Client, gang: str) -> bool:
    """Take a place that the rest of the gang needs; no if it has all of its places."""
    taken = set((await placed(client, gang)).values())
    free = [f"n{number}" for number in range(SIZE) if f"n{number}" not in taken]
    if not free:
        return False
    pod = {"apiVersion": "v1", **make_pod(f"other-{gang}", cpu="1", nodeName=free[0])}
    del pod["metadata"]["uid"]
    await client.create(PODS, pod)
    return True


async def test_a_killed_process_leaves_no_gang_in_part(tmp_path: Path) -> None:
    dice = random.Random(17)
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(CONF)
    clock, rng = system.SystemClock(), system.rng()
    with (
        ProcessCluster(tmp_path / "cluster", store_url=f"sqlite:///{tmp_path / 'store.db'}") as cluster,
        contextlib.ExitStack() as stack,
    ):
        master = cluster.master("m1", "--scheduler", "off", "--controllers", "")
        config = master.folder / "kubeconfig"
        async with client_factory.to_server(master.endpoint(), clock=clock, rng=rng) as client:
            for number in range(SIZE):
                await client.create(NODES, {"apiVersion": "v1", **make_node(f"n{number}", cpu="1")})
            observer = AllocationObserver()
            async with observer.following(client, clock=clock, rng=rng):
                process = stack.enter_context(scheduler(config, conf))
                for attempt in range(int(os.environ.get("ROTA_PROCESS_KILLS", "3"))):
                    gang = f"g{attempt}"
                    await create_gang(client, gang)
                    await until(bound_at_least(client, gang, dice.randint(1, SIZE)), "pods are bound", pause_s=0.01)
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait(60)
                    crowded = attempt % 2 == 1 and await crowd(client, gang)
                    process = stack.enter_context(scheduler(config, conf))
                    await until(settled(client, gang), f"gang {gang} is whole or not bound at all")
                    assert len(await placed(client, gang)) == (0 if crowded else SIZE)
                    await client.delete(POD_GROUPS, gang, namespace="default")
                    await sweep(client, all_pods=True)
            assert observer.violations == []
