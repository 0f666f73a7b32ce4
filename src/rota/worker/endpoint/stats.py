"""Resource usage of the machine and its pods for scrapers of kubelets: `/stats/summary`, `/metrics/resource`.

Nothing is measured without a request. Rates need two samples: the first request after a while waits a second for the
second sample, and a result is reused for a short time. A worker that has only a share of its machine reports the usage
of its pods as that of its node.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.api import meta, times
from rota.kit.clock import Clock
from rota.worker.runtimes.runtime_interface import Place
from rota.worker.usage import Meter, NodeUsage, PodUsage, Usage, combined
from rota.worker.worker_assembly import Worker

#: Samples that are further apart are not used for a rate.
_STALE_S: Final = 30.0
_BETWEEN_S: Final = 1.0
_KEPT_S: Final = 1.0
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The usage at one moment."""

    at: float
    #: The period of rates, at most; for a younger container, the time since its start.
    window_s: float
    #: None for a worker that has only a share of its machine.
    machine: NodeUsage | None
    #: The sum of all pods.
    all_pods: Usage
    pods: Mapping[str, PodUsage]


class Statistics:
    """Measures on request."""

    def __init__(self, worker: Worker, *, clock: Clock) -> None:
        self._worker: Final = worker
        self._clock: Final = clock
        self._meter: Final = Meter(self._places, folder=worker.folder, folders=self._folders, clock=clock)
        self._looking: Final = asyncio.Lock()
        self._last: Look | None = None

    async def look(self) -> Look:
        """The current usage."""
        async with self._looking:
            last, now = self._last, self._clock.now()
            if last is not None and 0 <= now - last.at < _KEPT_S:
                return last
            if last is None or now - last.at > _STALE_S:
                last = await asyncio.to_thread(self._measure, None)
                await self._clock.sleep(_BETWEEN_S)
            self._last = await asyncio.to_thread(self._measure, last)
            return self._last

    async def summary(self) -> dict[str, Any]:
        """In the format of `/stats/summary`; `window` is our own field, in seconds."""
        found = await self.look()
        pods = {one.uid: one.seen for one in self._worker.agent.machine.pods}
        return {
            "node": _node(self._worker.machine.node, found),
            "pods": [_pod(pods[uid], one) for uid, one in found.pods.items() if uid in pods],
            "window": found.window_s,
        }

    async def resources(self) -> str:
        """In the format of `/metrics/resource`."""
        found = await self.look()
        pods = {one.uid: one.seen for one in self._worker.agent.machine.pods}
        total = found.machine.total if found.machine is not None else found.all_pods
        lines = [*_lines("node", "", total)]
        for uid, one in found.pods.items():
            if uid not in pods:
                continue
            labels = f'namespace="{meta.namespace(pods[uid])}",pod="{meta.name(pods[uid])}"'
            lines += _lines("pod", labels, one.total)
            for name, used in one.containers.items():
                inside = f'container="{name}",{labels}'
                lines += _lines("container", inside, used)
                lines.append(f"container_start_time_seconds{{{inside}}} {used.started_at:.3f}")
        return "\n".join([*sorted(lines), "resource_scrape_error 0", ""])

    def _measure(self, before: Look | None) -> Look:
        pods = self._meter.everything()
        machine = self._meter.node() if self._worker.share >= 1 else None
        now = self._clock.now()
        return Look(
            at=now,
            window_s=_BETWEEN_S if before is None else max(now - before.at, 0.001),
            machine=machine,
            all_pods=combined([one.total for one in pods.values()], at=now) if pods else _nothing(now),
            pods=pods,
        )

    def _places(self) -> Mapping[str, Place]:
        # Looked up each time: the runtime is replaced after a failure.
        return dict(self._worker.runtime.places())

    def _folders(self, uid: str) -> list[Path]:
        return [*self._worker.runtime.folders(uid)]


def routes(statistics: Statistics) -> list[web.RouteDef]:
    """The routes of both formats."""

    async def summary(_: web.Request) -> web.Response:
        return web.json_response(await statistics.summary())

    async def resources(_: web.Request) -> web.Response:
        return web.Response(body=(await statistics.resources()).encode(), headers={"Content-Type": _TEXT})

    return [web.get("/stats/summary", summary), web.get("/metrics/resource", resources)]


def _nothing(now: float) -> Usage:
    return Usage(at=now, started_at=now, cpu_nanos=0, cpu_nanocores=0, memory_bytes=0, working_set_bytes=0, rss_bytes=0)


def _node(name: str, found: Look) -> dict[str, Any]:
    used = found.machine.total if found.machine is not None else found.all_pods
    shown: dict[str, Any] = {"nodeName": name, "startTime": times.format_time(used.started_at), **_shown(used)}
    at = times.format_time(used.at)
    if found.machine is None:
        shown["fs"] = {"time": at, "usedBytes": sum(one.total.disk_bytes or 0 for one in found.pods.values())}
    else:
        machine = found.machine
        shown["memory"]["availableBytes"] = machine.memory_available_bytes
        shown["fs"] = {
            "time": at,
            "availableBytes": machine.disk_available_bytes,
            "capacityBytes": machine.disk_capacity_bytes,
            "usedBytes": used.disk_bytes,
            "inodes": machine.inodes,
            "inodesFree": machine.inodes_free,
        }
        shown["rlimit"] = {"time": at, "maxpid": machine.most_processes, "curproc": used.processes}
    return shown


def _pod(pod: Mapping[str, Any], used: PodUsage) -> dict[str, Any]:
    at = times.format_time(used.total.at)
    shown: dict[str, Any] = {
        "podRef": {"name": meta.name(pod), "namespace": meta.namespace(pod), "uid": used.uid},
        "startTime": times.format_time(used.total.started_at),
        "containers": [
            {"name": name, "startTime": times.format_time(one.started_at), **_shown(one)}
            for name, one in sorted(used.containers.items())
        ],
        **_shown(used.total),
    }
    if used.total.disk_bytes is not None:
        shown["ephemeral-storage"] = {"time": at, "usedBytes": used.total.disk_bytes}
    if used.total.processes is not None:
        shown["process_stats"] = {"process_count": used.total.processes}
    return shown


def _shown(used: Usage) -> dict[str, Any]:
    """The common fields of nodes, pods and containers; unknown values are left out."""
    at = times.format_time(used.at)
    cpu = {"usageNanoCores": used.cpu_nanocores, "usageCoreNanoSeconds": used.cpu_nanos}
    memory = {
        "usageBytes": used.memory_bytes,
        "workingSetBytes": used.working_set_bytes,
        "rssBytes": used.rss_bytes,
    }
    shown = {"cpu": {"time": at, **_known(cpu)}, "memory": {"time": at, **_known(memory)}}
    if used.network is not None:
        network = used.network
        shown["network"] = {
            "time": at,
            "rxBytes": network.received_bytes,
            "rxErrors": network.receive_errors,
            "txBytes": network.sent_bytes,
            "txErrors": network.send_errors,
        }
    return shown


def _known(values: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def _lines(what: str, labels: str, used: Usage) -> list[str]:
    braced = f"{{{labels}}}" if labels else ""
    lines = []
    if used.cpu_nanos is not None:
        lines.append(f"{what}_cpu_usage_seconds_total{braced} {used.cpu_nanos / 1e9:.6f}")
    if used.working_set_bytes is not None:
        lines.append(f"{what}_memory_working_set_bytes{braced} {used.working_set_bytes}")
    return lines
