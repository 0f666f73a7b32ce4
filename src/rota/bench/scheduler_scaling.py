"""Pods per second of N schedulers if every process has the same share of a core.

On few cores N schedulers and N API servers do not run side by side. So each process is held to a share of a core by a
control group, and the machine has room for all of them. On a store that several masters can share, each scheduler has
an API server of its own; otherwise all have the same one. Pods are created through all API servers in turn.

The processor times of the runs with one and two schedulers predict the rates of the others
(`conflict_model.predicted_rate`): what a pod costs the process that handles it, and what it costs each other one.
"""

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from rota.bench import conflict_model, core_shares, processor, rota_processes, shard_members, workloads
from rota.bench.conflict_model import ServiceTimes
from rota.bench.core_shares import CoreShares
from rota.bench.http import Connection
from rota.bench.report import Result, rate
from rota.bench.schedule import Run, connections_to
from rota.bench.workloads import Case
from rota.client import client_factory, kubeconfig
from rota.kit import logs, system

log = logs.get(__name__)

#: What each process may use of a core: sixteen of them and a database fit on two cores.
SHARE: Final = 0.1
_NUMBERS: Final = (1, 2, 4, 8)
_QUICK_NUMBERS: Final = (1, 2)
_NODES, _PODS, _WARM_UP = 500, 2_000, 50
_QUICK_NODES, _QUICK_PODS = 50, 200
#: Four schedulers are to bind at least so many times the pods of one, for each of them.
_GOAL, _GOAL_FOR = 0.7, 4
#: A prediction may be wrong by this part.
_TOLERANCE: Final = 0.15


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: pods per second, and seconds of processor time per pod in each process of a kind."""

    rate: float
    serving: float
    scheduling: float


def measure(store_url: str, *, quick: bool) -> list[Result]:
    """Measure all numbers of schedulers; nothing where no control groups can be made."""
    numbers = _QUICK_NUMBERS if quick else _NUMBERS
    nodes, pods = (_QUICK_NODES, _QUICK_PODS) if quick else (_NODES, _PODS)
    shared = not store_url.startswith("sqlite:")
    found: dict[int, Measured] = {}
    # All runs on a shared store need the encryption keys of the first.
    with core_shares.held() as shares, tempfile.TemporaryDirectory(prefix="rota-bench-") as common:
        if shares is None:
            log.warning("rates with a share of a core each are not measured: no control group can be made here")
            return []
        for number in numbers:
            with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
                url = store_url if shared else f"sqlite:///{folder}/store.db"
                servers = number if shared else 1
                case = Case(name="scaling", nodes=nodes, pods=pods, template=workloads.identical)
                keys = (Path(common) if shared else Path(folder)) / "keys.yaml"
                found[number] = uvloop.run(_run(Path(folder), url, keys, number, servers, case, shares))
    return results_of(found, shared=shared)


def results_of(found: dict[int, Measured], *, shared: bool) -> list[Result]:
    """Rates and predictions; `shared`: each scheduler had an API server of its own."""
    times = _service_times(found[1], found[2], shared=shared)
    results = []
    for number, one in found.items():
        servers = number if shared else 1
        about = f"N={number}, {servers} API server{'s' if servers > 1 else ''}, {SHARE:g} of a core each"
        measured = rate(f"pods/s, {about}", one.rate, found[1].rate, against="one scheduler")
        if 1 < number <= _GOAL_FOR and shared:
            met = one.rate >= _GOAL * number * found[1].rate
            measured = msgspec.structs.replace(measured, goal=f"at least {_GOAL:g} N times one scheduler", met=met)
        results.append(measured)
        predicted = SHARE * conflict_model.predicted_rate(times, number, servers=servers)
        result = rate(f"predicted pods/s, {about}", predicted, one.rate, against="measured")
        if number > 2:
            off = abs(predicted - one.rate) / one.rate
            result = msgspec.structs.replace(result, goal=f"within {_TOLERANCE:.0%} of measured", met=off <= _TOLERANCE)
        results.append(result)
    return results


def _service_times(one: Measured, two: Measured, *, shared: bool) -> ServiceTimes:
    """The times that explain both runs: with two processes of a kind each handles half of the pods and sees all."""
    deciding, following = _own_and_seen(one.scheduling, two.scheduling)
    serving, mirroring = _own_and_seen(one.serving, two.serving) if shared else (one.serving, 0.0)
    return ServiceTimes(serving=serving, deciding=deciding, following=following, mirroring=mirroring)


def _own_and_seen(alone: float, of_two: float) -> tuple[float, float]:
    own = min(alone, max(0.0, 2.0 * (alone - of_two)))
    return own, alone - own


async def _run(
    folder: Path, store_url: str, keys: Path, number: int, servers: int, case: Case, shares: CoreShares
) -> Measured:
    clock, rng = system.SystemClock(), system.rng()
    name = f"scaling-{number}"
    with contextlib.ExitStack() as processes:
        masters, configs = [], []
        for each in range(servers):
            data = folder / f"master-{each}"
            data.mkdir()
            arguments = ["master", "--store", store_url, "--data", str(data), "--port", "0"]
            arguments += ["--encryption-keys", str(keys), "--scheduler", "off", "--controllers", ""]
            masters.append(rota_processes.start(processes, arguments, data / "log"))
            await asyncio.to_thread(rota_processes.await_line, data / "log", "This master is up")
            configs.append(data / "kubeconfig")
        schedulers = [
            rota_processes.start(
                processes,
                [
                    "scheduler",
                    "--shard-of",
                    name,
                    "--instance",
                    f"{name}-{each}",
                    "--kubeconfig",
                    str(configs[each % servers]),
                ],
                folder / f"scheduler-{each}.log",
            )
            for each in range(number)
        ]
        endpoint = kubeconfig.load(configs[0], clock=clock)
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            await shard_members.settled(client, name, number)
        connect = await _in_turn(configs)
        # The nodes, and the first pods, before anything is limited and measured.
        warm_up = Case(name=case.name, nodes=case.nodes, pods=_WARM_UP, template=case.template)
        await Run(warm_up, connect, keep=True).measured()
        measured = Run(case, connect)
        try:
            for pid in (*masters, *schedulers):
                shares.hold(pid, SHARE)
            before = {pid: processor.used_s(pid) for pid in (*masters, *schedulers)}
            took_s = await measured.placed()
            spent = {pid: processor.used_s(pid) - before[pid] for pid in before}
        finally:
            shares.release()
            await measured.clean_up()
    return Measured(
        case.pods / took_s,
        sum(spent[pid] for pid in masters) / servers / case.pods,
        sum(spent[pid] for pid in schedulers) / number / case.pods,
    )


async def _in_turn(configs: list[Path]) -> Callable[[], Awaitable[Connection]]:
    """A factory of connections to the servers, one after the other."""
    factories = itertools.cycle([await connections_to(config) for config in configs])

    async def connect() -> Connection:
        return await next(factories)()

    return connect
