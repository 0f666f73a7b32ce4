"""The power of a machine by the utilisation of its processor: the formulas of the models that plugins and
ClusterStates are configured with."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.forecast.arrays import Floats

Model = Literal["linear", "fan", "table", "exponential", "sockets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePower:
    """A model of machines, whose kind decides which of its parameters count, and what they draw while asleep."""

    model: Model = "linear"
    idle: float = 100.0
    full: float = 250.0
    watts: tuple[float, ...] = ()
    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0
    cores_per_socket: int = 24
    sleep_watts: float = 0.0


def watts(curve: MachinePower, used: Floats, capacity: Floats) -> Floats:
    """The watts of awake machines; `used` and `capacity` in millicores."""
    share = np.minimum(used / np.maximum(capacity, 1.0), 1.0)
    if curve.model == "linear":
        return np.asarray(curve.idle + (curve.full - curve.idle) * share)
    if curve.model == "fan":
        return np.asarray(curve.idle + (curve.full - curve.idle) * (2 * share - share**1.4))
    if curve.model == "table":
        return np.interp(share, np.linspace(0.0, 1.0, len(curve.watts)), curve.watts)
    if curve.model == "exponential":
        return np.asarray(curve.k0 + curve.k1 * np.exp(curve.k2 * 100.0 * share))
    size = curve.cores_per_socket * 1000.0
    sockets, busy = np.ceil(capacity / size), np.ceil(used / size)
    return np.asarray(curve.idle * np.maximum(sockets - busy, 0.0) + curve.full * busy)
