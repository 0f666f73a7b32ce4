"""Benchmark of a running federation: a control plane and members as processes of their own, on SQLite.

Measured are the time from a template to its running pod in a member, Works a second, the memory of the control plane
with many bindings, and the processor time of a control plane with a hundred idle members. The idle members are
simulated: a hundred Clusters that lead to one API server, so that only the control plane's share is measured.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rota.bench import processor
from rota.bench.report import Result, duration, rate
from rota.client import client_factory, kubeconfig
from rota.client.verbs import Client, Selection
from rota.federation import kinds
from rota.kit import errors, system

UPSTREAM_WORKS: Final = 200.0
UPSTREAM_MIB: Final = 2048.0
IDLE_PERCENT: Final = 10.0
RUNNING_MS: Final = 1000.0
_CONFIG_MAPS: Final = ("", "v1", "configmaps")
_DEPLOYMENTS: Final = ("apps", "v1", "deployments")
_PODS: Final = ("", "v1", "pods")
_AT_ONCE: Final = 32
_START_S: Final = 120.0
_LONGEST_S: Final = 1200.0


class Effort(Struct, frozen=True, kw_only=True):
    """How much to measure."""

    templates: int = 60
    works: int = 2_000
    bindings: int = 10_000
    members: int = 100
    idle_s: float = 60.0


QUICK: Final = Effort(templates=5, works=50, bindings=100, members=5, idle_s=4.0)


def measure(*, quick: bool) -> list[Result]:
    """Start processes, measure, and end them."""
    effort = QUICK if quick else Effort()
    folder = Path(tempfile.mkdtemp(prefix="rota-bench-"))
    try:
        with _process(folder / "m1", "up", "--workers", "1", ready="Rota is up.") as _:
            up = ("federation", "up", "--every", "10s")
            with _process(folder / "control", *up, ready="The federation is up.") as pid:
                return asyncio.run(_measured(folder, pid, effort))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measured(folder: Path, pid: int, effort: Effort) -> list[Result]:
    async with contextlib.AsyncExitStack() as stack:
        control = await stack.enter_async_context(_client(folder / "control" / "kubeconfig"))
        member = await stack.enter_async_context(_client(folder / "m1" / "kubeconfig"))
        _join(folder, "m1")
        await _until(lambda: _is_ready(control, "m1"))
        found = [*await _running(control, member, effort), *await _works(control, member, pid, effort)]
        found.append(await _memory(control, member, pid, effort))
        found.append(await _idle(control, pid, effort))
        return found


async def _running(control: Client, member: Client, effort: Effort) -> list[Result]:
    """One template after the other, from the request to its running pod in the member."""
    await control.create(kinds.POLICIES, _policy("Deployment", "apps/v1"))
    delays: list[float] = []
    for number in range(effort.templates):
        name = f"web-{number}"
        begun = time.perf_counter()
        await control.create(_DEPLOYMENTS, _deployment(name))
        await _until(lambda: _runs(member, name))  # noqa: B023 - awaited at once
        delays.append((time.perf_counter() - begun) * 1e3)
    delays.sort()
    against = f"a second, with {len(delays)} templates, one at a time"
    middle, late = delays[len(delays) // 2], delays[min(int(len(delays) * 0.99), len(delays) - 1)]
    return [
        duration("template to running pod in the member, median", middle, RUNNING_MS, against=against),
        duration("template to running pod in the member, p99", late, RUNNING_MS, against=against),
    ]


async def _works(control: Client, member: Client, pid: int, effort: Effort) -> list[Result]:
    """Many templates at once, from the first request until the member has them all."""
    await control.create(kinds.POLICIES, _policy("ConfigMap", "v1"))
    begun, spent = time.perf_counter(), processor.used_s(pid)
    await _create_many(control, "fast", effort.works)
    await _until(lambda: _has(member, "fast", effort.works))
    against = "about 200 a second, as reported of Karmada"
    took, spent = time.perf_counter() - begun, processor.used_s(pid) - spent
    name = f"Works applied, {effort.works:,} templates"
    return [
        rate(name, effort.works / took, UPSTREAM_WORKS, against=against),
        rate(f"{name}, by processor time of the control plane", effort.works / spent, UPSTREAM_WORKS, against=against),
    ]


async def _memory(control: Client, member: Client, pid: int, effort: Effort) -> Result:
    """What the control plane takes with many bindings, API server and store included."""
    await _create_many(control, "many", effort.bindings)
    await _until(lambda: _has(member, "many", effort.bindings))
    taken = processor.resident_mib(pid)
    return Result(
        name=f"memory of the control plane, {effort.bindings:,} bindings",
        value=taken,
        unit="MiB",
        against="a third of 2 GiB, as reported of Karmada with 12,000 objects",
        ratio=UPSTREAM_MIB / 3 / taken,
    )


async def _idle(control: Client, pid: int, effort: Effort) -> Result:
    """The share of a core that the control plane uses with members that do nothing."""
    first = await control.get(kinds.CLUSTERS, "m1")
    like = {"apiVersion": first["apiVersion"], "kind": first["kind"], "spec": first["spec"]}
    for number in range(effort.members):
        await control.create(kinds.CLUSTERS, {**like, "metadata": {"name": f"idle-{number}"}})
    for number in range(effort.members):
        await _until(lambda: _is_ready(control, f"idle-{number}"))  # noqa: B023 - awaited at once
    # The first polls of all members come together; afterwards they are spread.
    await asyncio.sleep(effort.idle_s / 4)
    before, begun = processor.used_s(pid), time.perf_counter()
    await asyncio.sleep(effort.idle_s)
    percent = 100 * (processor.used_s(pid) - before) / (time.perf_counter() - begun)
    return duration(
        f"idle control plane with {effort.members} simulated members",
        percent,
        IDLE_PERCENT,
        against=f"{IDLE_PERCENT:g} % of a core",
        unit="% of a core",
    )


# --- objects and waiting ----------------------------------------------------------------------------------------------


def _policy(kind: str, version: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": kind.lower(), "namespace": "default"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": version, "kind": kind, "labelSelector": {"matchLabels": {"bench": "yes"}}}
            ],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    }


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name, "bench": "yes"}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }


async def _create_many(control: Client, prefix: str, count: int) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def create(number: int) -> None:
        async with places:
            metadata = {"name": f"{prefix}-{number}", "namespace": "default", "labels": {"bench": "yes", "of": prefix}}
            await control.create(
                _CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
            )

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(create(number))


async def _has(member: Client, prefix: str, count: int) -> bool:
    quiet = member.with_settings(metadata_only=True)
    listed = await quiet.list(_CONFIG_MAPS, namespace="default", selection=Selection(labels=f"of={prefix}"))
    return len(listed.items) >= count


async def _runs(member: Client, name: str) -> bool:
    listed = await member.list(_PODS, namespace="default", selection=Selection(labels=f"app={name}"))
    return any((pod.get("status") or {}).get("phase") == "Running" for pod in listed.items)


async def _is_ready(control: Client, name: str) -> bool:
    cluster = await control.get(kinds.CLUSTERS, name)
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def _until(holds: Callable[[], Any]) -> None:
    deadline = time.perf_counter() + _LONGEST_S
    while not await holds():
        if time.perf_counter() > deadline:
            raise errors.UserError("the federation did not finish its work", "try again on an idle machine")
        await asyncio.sleep(0.01)


# --- processes --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _process(folder: Path, *arguments: str, ready: str) -> Iterator[int]:
    """A command of Rota that serves from a folder, with all that it starts."""
    folder.mkdir(parents=True)
    log = folder / "output.log"
    command = (sys.executable, "-m", "rota", *arguments, "--data", str(folder), "--port", "0")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.perf_counter() + _START_S
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None or time.perf_counter() > deadline:
                raise errors.UserError(f"rota {arguments[0]} does not start", log.read_text(errors="replace")[-500:])
            system.SystemClock().block(0.05)
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        # Tasks outlive their worker; they are in its session.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        _end_tasks(folder)


def _end_tasks(folder: Path) -> None:
    """End the processes that the folder's workers left behind."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def _join(folder: Path, name: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(folder / "control" / "kubeconfig")}
    arguments: Sequence[str] = ("federation", "join", name, "--member", str(folder / name / "kubeconfig"))
    subprocess.run((sys.executable, "-m", "rota", *arguments), env=environment, check=True, capture_output=True)


@contextlib.asynccontextmanager
async def _client(path: Path) -> AsyncIterator[Client]:
    clock, rng = system.SystemClock(), system.rng()
    async with client_factory.to_server(kubeconfig.load(path, clock=clock), clock=clock, rng=rng) as client:
        yield client
