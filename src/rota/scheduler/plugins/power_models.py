"""Models of a machine's power: watts by the utilisation of its processor.

A machine without pods is off or asleep: it draws `sleepWatts`. Waking it costs energy, which is spread over the time
for which a machine usually stays awake.
"""

import functools
from collections.abc import Iterator

import numpy as np

from rota.columns.arrays import FloatArray
from rota.forecast import machine_power
from rota.forecast.machine_power import MachinePower
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct


class PowerModel(WireStruct, frozen=True):
    """The power of the machines whose label `rota.dev/power-model` has this name; an empty name is for all others."""

    name: str = ""
    #: linear: idle + (full - idle) u; fan: idle + (full - idle) (2u - u^1.4); table: watts at equal steps of u;
    #: exponential: k0 + k1 e^(k2 u), u in percent, as in PEAKS; sockets: idle or full by socket, as in PWR.
    model: machine_power.Model = "linear"
    idle: float = 100.0
    full: float = 250.0
    watts: tuple[float, ...] = ()
    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0
    cores_per_socket: int = 24
    sleep_watts: float = 0.0
    #: The energy of a start, and the time over which it counts.
    wake_joules: float = 0.0
    awake_seconds: float = 3600.0

    def faults(self) -> Iterator[Fault]:
        """Watts that cannot be."""
        if self.model in ("linear", "fan", "sockets") and not 0 <= self.idle <= self.full:
            yield Fault("idle", "must be from 0 to full")
        if self.model == "table" and (len(self.watts) < 2 or any(each < 0 for each in self.watts)):
            yield Fault("watts", "needs two values or more, none of them negative: the watts at equal steps of use")
        if self.model == "exponential" and (self.k1 < 0 or self.k2 < 0 or self.k0 + self.k1 < 0):
            yield Fault("k1", "k1, k2 and k0 + k1 must not be negative")
        if self.model == "sockets" and self.cores_per_socket < 1:
            yield Fault("coresPerSocket", "must be at least 1")
        if self.sleep_watts < 0 or self.wake_joules < 0 or self.awake_seconds <= 0:
            yield Fault("sleepWatts", "sleepWatts and wakeJoules must not be negative, awakeSeconds must be positive")

    def awake(self, used: FloatArray, capacity: FloatArray) -> FloatArray:
        """The watts of awake machines; `used` and `capacity` in millicores."""
        return machine_power.watts(_curve(self), used, capacity)

    def growth(self, used: FloatArray, more: float, capacity: FloatArray, empty: FloatArray) -> FloatArray:
        """By how many watts the power grows; `empty` machines are woken."""
        after = self.awake(used + more, capacity)
        woken = after - self.sleep_watts + self.wake_joules / self.awake_seconds
        return np.where(empty, woken, after - self.awake(used, capacity))

    def growth_of_one(self, used: float, more: float, capacity: float, *, empty: bool) -> float:
        """As `growth`, of one machine."""
        if self.model != "linear":
            return float(self.growth(np.array([used]), more, np.array([capacity]), np.array([empty]))[0])
        whole, width = max(capacity, 1.0), self.full - self.idle
        after = self.idle + width * min((used + more) / whole, 1.0)
        if empty:
            return after - self.sleep_watts + self.wake_joules / self.awake_seconds
        return after - (self.idle + width * min(used / whole, 1.0))


@functools.lru_cache(maxsize=256)
def _curve(model: PowerModel) -> MachinePower:
    return MachinePower(
        model=model.model,
        idle=model.idle,
        full=model.full,
        watts=model.watts,
        k0=model.k0,
        k1=model.k1,
        k2=model.k2,
        cores_per_socket=model.cores_per_socket,
    )
