"""The live figures that a tuned scheduler is judged by, from the ClusterState of all nodes, and their bounds. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import times
from rota.api.meta import Object

#: Figures of which more is better; of the others, less is.
RISING: Final = frozenset({"emptyNodes"})
#: A state is written every 300 seconds, also if nothing has changed.
STALE_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Bound:
    """How much worse than before a figure may get: by a part of it or by an amount, whichever is more."""

    figure: str
    percent: float = 10.0
    amount: float = 0.0

    def is_exceeded(self, before: float, now: float) -> bool:
        """Whether the figure is worse than the bound allows."""
        worse = before - now if self.figure in RISING else now - before
        return worse > max(self.percent / 100 * abs(before), self.amount) + 1e-9


#: The bounds of a proposal that names none.
USUAL: Final = (Bound("pendingPods", amount=5), Bound("fragmentation", amount=0.05))


def read(state: Object | None, *, now: float) -> dict[str, float] | None:
    """The figures of a ClusterState; None if there are none, or they are too old to say anything."""
    status: Mapping[str, Any] = (state or {}).get("status") or {}
    observed = status.get("observedTime")
    if not observed or now - times.parse(observed) > STALE_S:
        return None
    resources = status.get("resources") or ()
    found: dict[str, float] = {
        "pendingPods": float((status.get("pods") or {}).get("pending") or 0),
        "emptyNodes": float((status.get("nodes") or {}).get("empty") or 0),
        "fragmentation": max((float(each.get("fragmentation") or 0) for each in resources), default=0.0),
    }
    if (watts := (status.get("power") or {}).get("watts")) is not None:
        found["powerWatts"] = float(watts)
    records = [each["record"] for each in resources if each.get("record")]
    if forecasts := sum(each.get("forecasts") or 0 for each in records):
        found["violationRate"] = sum(each.get("violations") or 0 for each in records) / forecasts
    return found


def bounds_of(spec: Object) -> tuple[Bound, ...]:
    """The bounds of a proposal."""
    return (
        tuple(
            Bound(
                each["figure"],
                percent=10.0 if each.get("percent") is None else float(each["percent"]),
                amount=float(each.get("amount") or 0),
            )
            for each in spec.get("bounds") or ()
        )
        or USUAL
    )


def mean(readings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of the figures that all readings have."""
    names = set.intersection(*(set(each) for each in readings)) if readings else set()
    return {name: sum(each[name] for each in readings) / len(readings) for name in sorted(names)}


def exceeded(bounds: Iterable[Bound], before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """What is worse than its bound, in words; a figure that is no longer there counts as worse."""
    found = []
    for bound in bounds:
        if bound.figure not in before:
            continue
        if bound.figure not in now:
            found.append(f"{bound.figure} is no longer measured")
        elif bound.is_exceeded(before[bound.figure], now[bound.figure]):
            found.append(f"{bound.figure} is {now[bound.figure]:g}, it was {before[bound.figure]:g}")
    return found
