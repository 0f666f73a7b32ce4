"""Schedulers as processes on one master: killed and suspended, their pods are decided by the others."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.client import client_factory
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.kit import system
from rota.scheduler.sharding.instance_objects import INSTANCES, SHARD_MAPS
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.clusters import make_node, make_pod
from rota.testing.process_cluster import ProcessCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NODES = ("", "v1", "nodes")
SLOTS, NODE_COUNT = 40, 4


@contextlib.contextmanager
def _schedulers(config: Path, *names: str) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    command = [sys.executable, "-m", "rota", "scheduler", "--kubeconfig", str(config), "--shard-of", "default"]
    started = {name: subprocess.Popen([*command, "--instance", name]) for name in names}
    try:
        yield started
    finally:
        for process in started.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
                process.wait(30)


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(90):
            while not await condition():  # noqa: ASYNC110 - what is waited for happens in other processes
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within 90 s: {what}") from None


async def _members(client: Client) -> set[str]:
    maps = {one["metadata"]["name"]: one for one in (await client.list(SHARD_MAPS)).items}
    status = (maps.get("default") or {}).get("status") or {}
    return {one["name"] for one in status.get("members") or ()}


async def _create(client: Client, prefix: str, count: int) -> None:
    for number in range(count):
        pod = {"apiVersion": "v1", **make_pod(f"{prefix}-{number}", cpu="100m")}
        del pod["metadata"]["uid"]
        await client.create(PODS, pod)


async def _placed(client: Client, prefix: str) -> int:
    pods = (await client.list(PODS)).items
    return sum(bool(one["spec"].get("nodeName")) for one in pods if one["metadata"]["name"].startswith(f"{prefix}-"))


def _all_placed(client: Client, prefix: str, count: int) -> Callable[[], Awaitable[bool]]:
    async def placed() -> bool:
        return await _placed(client, prefix) == count

    return placed


def _sharing(client: Client, *names: str) -> Callable[[], Awaitable[bool]]:
    async def shared() -> bool:
        reports: dict[str, Any] = {
            one["metadata"]["name"]: one.get("status") or {} for one in (await client.list(INSTANCES)).items
        }
        active = all(reports.get(name, {}).get("phase") == "Active" for name in names)
        return active and await _members(client) == set(names)

    return shared


async def test_pods_of_killed_and_suspended_schedulers_are_decided_by_the_others(tmp_path: Path) -> None:
    clock, rng = system.SystemClock(), system.rng()
    with ProcessCluster(tmp_path, store_url=f"sqlite:///{tmp_path}/store.db") as cluster:
        master = cluster.master("m1", "--scheduler", "off", "--controllers", "")
        with _schedulers(master.folder / "kubeconfig", "a", "b", "c") as processes:
            async with client_factory.to_server(master.endpoint(), clock=clock, rng=rng) as client:
                for number in range(NODE_COUNT):
                    node = make_node(f"n{number}", cpu="4", pods="200")
                    await client.create(NODES, {"apiVersion": "v1", **node})
                observer = AllocationObserver()
                async with observer.following(client, clock=clock, rng=rng):
                    await _until(_sharing(client, "a", "b", "c"), "three schedulers share the pods")
                    os.kill(processes["b"].pid, signal.SIGSTOP)
                    processes["a"].kill()
                    processes["a"].wait(30)
                    await _create(client, "first", 60)
                    # Of three schedulers one is dead and one hangs: the third has all pods.
                    await _until(_all_placed(client, "first", 60), "all pods are placed")
                    assert await _members(client) == {"c"}
                    os.kill(processes["b"].pid, signal.SIGCONT)
                    await _until(_sharing(client, "b", "c"), "the scheduler that hung is back")
                    # There is room for these: each of the two places its own.
                    await _create(client, "second", 40)
                    await _until(_all_placed(client, "second", 40), "all pods are placed")
                    await _until(_bound_by(client, "b", "c"), "both have placed pods")
                    # More than twice as many as fit: the cluster is full, and never more than full.
                    await _create(client, "third", 140)
                    room = NODE_COUNT * SLOTS - 60 - 40
                    await _until(_all_placed(client, "third", room), "the cluster is full")
                    await _until(_seen(observer, NODE_COUNT * SLOTS), "the observer has seen all bindings")
                assert observer.violations == []


def _bound_by(client: Client, *names: str) -> Callable[[], Awaitable[bool]]:
    async def bound() -> bool:
        reports = {one["metadata"]["name"]: one.get("status") or {} for one in (await client.list(INSTANCES)).items}
        return all(reports[name].get("boundPods", 0) > 0 for name in names)

    return bound


def _seen(observer: AllocationObserver, bindings: int) -> Callable[[], Awaitable[bool]]:
    async def seen() -> bool:
        return observer.bindings >= bindings

    return seen
