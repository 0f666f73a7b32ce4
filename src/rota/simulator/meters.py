"""Meters: what a simulation measures while it runs, at a cost per event that does not grow. Pure.

Utilisation is allocated requests as a part of what the nodes have. Energy follows a linear model of a node: its idle
power, and the rest in proportion to its allocated cpu.
"""

from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np

from rota.api.resources import CPU, MEMORY
from rota.simulator import gpu_demand
from rota.simulator.models import Models
from rota.simulator.results import Series

GPU: Final = "gpu"
#: The resources that reports show.
SHOWN: Final = (CPU, MEMORY, GPU)
#: Points of a curve before every second one is dropped.
_MOST_POINTS: Final = 1024
_WH: Final = 3600.0


def shown_amounts(amounts: Mapping[str, int]) -> tuple[int, int, int]:
    """Cpu, memory and GPUs of requests or of a node."""
    gpus = gpu_demand.milli(amounts)
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0), gpus


class Curve:
    """Samples of values over time, thinned out as they become many; the result depends on the values only."""

    def __init__(self, width: int) -> None:
        self._width: Final = width
        self._times: list[float] = []
        self._values: list[tuple[float, ...]] = []
        self._step = 0.0

    def wants(self, at: float) -> bool:
        """Whether no sample is near."""
        return not self._times or at - self._times[-1] >= self._step

    def add(self, at: float, values: tuple[float, ...]) -> None:
        """Add a sample, unless one is near."""
        if not self.wants(at):
            return
        self._times.append(at)
        self._values.append(values)
        if len(self._times) > _MOST_POINTS:
            self._times, self._values = self._times[::2], self._values[::2]
            self._step = max(self._step * 2, (self._times[-1] - self._times[0]) / _MOST_POINTS)

    def series(self, index: int, across: str, up: str) -> Series:
        """One of the values as a curve."""
        return Series(across=across, up=up, x=tuple(self._times), y=tuple(value[index] for value in self._values))


class Meters:
    """All figures of one run."""

    def __init__(self, models: Models) -> None:
        self._models: Final = models
        self._last = 0.0
        self._nodes: Final[dict[str, tuple[int, int, int]]] = {}
        self._pods_on: Final[dict[str, int]] = {}
        self._capacity: Final = [0, 0, 0]
        self._taken: Final = [0, 0, 0]
        self._occupied = 0
        #: The sum over nodes of the allocated part of their cpu.
        self._load = 0.0
        self._taken_s: Final = [0.0, 0.0, 0.0]
        self._capacity_s: Final = [0.0, 0.0, 0.0]
        self._energy_ws = 0.0
        self._curve: Final = Curve(6)
        self.waits: Final = array("d")
        self.placed = self.finished = self.failed_attempts = self.attempts = 0
        self.preempted = self.lost = self.noticed = self.recreated = 0
        self.nodes_added = self.nodes_removed = 0
        self.longest_queue = 0

    def add_node(self, name: str, allocatable: Mapping[str, int], now: float) -> None:
        """A node is there, or has other resources."""
        self.advance(now)
        self._forget(name)
        amounts = allocatable.get(CPU, 0), allocatable.get(MEMORY, 0), gpu_demand.capacity(allocatable)
        self._nodes[name] = amounts
        for index, amount in enumerate(amounts):
            self._capacity[index] += amount

    def remove_node(self, name: str, now: float) -> None:
        """A node is gone; its pods are removed one by one."""
        self.advance(now)
        self._forget(name)

    def _forget(self, name: str) -> None:
        for index, amount in enumerate(self._nodes.pop(name, (0, 0, 0))):
            self._capacity[index] -= amount

    def place(self, node: str, amounts: tuple[int, int, int], now: float) -> None:
        """A pod takes resources of a node."""
        self.advance(now)
        self._count(node, amounts, 1)

    def remove(self, node: str, amounts: tuple[int, int, int], now: float) -> None:
        """A pod gives them back."""
        self.advance(now)
        self._count(node, amounts, -1)

    def _count(self, node: str, amounts: tuple[int, int, int], sign: int) -> None:
        taken = self._taken
        taken[0] += sign * amounts[0]
        taken[1] += sign * amounts[1]
        taken[2] += sign * amounts[2]
        before = self._pods_on.get(node, 0)
        after = self._pods_on[node] = before + sign
        if not before or not after:
            self._occupied += sign
        cpu = self._nodes.get(node, amounts)[0]
        if cpu:
            self._load += sign * amounts[0] / cpu

    def advance(self, now: float) -> None:
        """Let time pass."""
        passed = now - self._last
        if passed <= 0:
            return
        self._last = now
        (cpu, memory, gpus), (all_cpu, all_memory, all_gpus) = self._taken, self._capacity
        taken_s, capacity_s = self._taken_s, self._capacity_s
        taken_s[0] += cpu * passed
        taken_s[1] += memory * passed
        taken_s[2] += gpus * passed
        capacity_s[0] += all_cpu * passed
        capacity_s[1] += all_memory * passed
        capacity_s[2] += all_gpus * passed
        models = self._models
        on = self._occupied if models.empty_is_off else len(self._nodes)
        watts = on * models.idle_w + self._load * (models.busy_w - models.idle_w)
        self._energy_ws += watts * passed
        if self._curve.wants(now):
            parts = tuple(
                part / whole if whole else 0.0 for part, whole in zip(self._taken, self._capacity, strict=True)
            )
            evicted = self.preempted + self.lost
            self._curve.add(now, (*parts, watts, self._energy_ws / _WH / 1000, float(evicted)))

    def figures(self) -> dict[str, float]:
        """All figures by name."""
        waits = np.frombuffer(self.waits) if self.waits else np.zeros(1)
        middle, most, nearly_all = (float(value) for value in np.percentile(waits, (50, 90, 99)))
        found = {
            f"utilisation_{name}": 100 * taken / capacity
            for name, taken, capacity in zip(SHOWN, self._taken_s, self._capacity_s, strict=True)
            if capacity
        }
        return found | {
            "placed": float(self.placed),
            "finished": float(self.finished),
            "wait_p50_s": middle,
            "wait_p90_s": most,
            "wait_p99_s": nearly_all,
            "wait_max_s": float(waits.max()),
            "attempts": float(self.attempts),
            "failed_attempts": float(self.failed_attempts),
            "preempted": float(self.preempted),
            "lost": float(self.lost),
            "notices": float(self.noticed),
            "recreated": float(self.recreated),
            "nodes_added": float(self.nodes_added),
            "nodes_removed": float(self.nodes_removed),
            "longest_queue": float(self.longest_queue),
            "energy_kwh": self._energy_ws / _WH / 1000,
            "virtual_time_s": self._last,
        }

    def series(self) -> dict[str, Series]:
        """Utilisation, power, energy and evictions over time, and how long pods waited."""
        across = "virtual time (s)"
        found = {
            f"utilisation_{name}": self._curve.series(index, across, f"allocated {name} (part of all nodes)")
            for index, name in enumerate(SHOWN)
            if self._capacity_s[index]
        }
        found["power"] = self._curve.series(3, across, "power (W)")
        found["energy"] = self._curve.series(4, across, "energy so far (kWh)")
        if self.preempted or self.lost:
            found["evictions"] = self._curve.series(5, across, "pods evicted or lost so far")
        if self.waits:
            parts = np.linspace(0, 100, 101)
            times = np.percentile(np.frombuffer(self.waits), parts)
            found["waiting"] = Series(
                across="waiting time (s)",
                up="pods that waited at most so long (%)",
                x=tuple(float(value) for value in times),
                y=tuple(float(value) for value in parts),
            )
        return found
