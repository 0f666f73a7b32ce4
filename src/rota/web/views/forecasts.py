"""Forecasts as rows: what each node uses, and the peak that is expected."""

from typing import Any

import msgspec

from rota.api import meta, quantities, times
from rota.web.views.view import Rows


class Forecast(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The measured and the predicted use of a node."""

    node: str
    #: Seconds since 1970; 0 before the first measurement.
    observed: int
    horizon_s: int
    cpu_used: int
    cpu_peak: int
    memory_used: int
    memory_peak: int
    #: Resources without a recent measurement.
    stale: tuple[str, ...]


def read(forecast: dict[str, Any]) -> Forecast:
    """A NodeForecast of the API."""
    status = forecast.get("status") or {}
    by_name = {one.get("resource"): one for one in status.get("resources") or ()}
    cpu, memory = by_name.get("cpu") or {}, by_name.get("memory") or {}
    observed = status.get("observedTime")
    return Forecast(
        node=meta.name(forecast),
        observed=int(times.parse(observed)) if observed else 0,
        horizon_s=status.get("horizonSeconds") or 0,
        cpu_used=quantities.milli(cpu.get("used")),
        cpu_peak=quantities.milli(cpu.get("peak")),
        memory_used=quantities.value(memory.get("used")),
        memory_peak=quantities.value(memory.get("peak")),
        stale=tuple(sorted(str(name) for name, one in by_name.items() if one.get("basis") == "Stale")),
    )


class ForecastTable(Rows[Forecast]):
    """The forecasts of all nodes."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__(Forecast.__struct_fields__, namespace)
