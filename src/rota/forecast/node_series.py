"""The series of all nodes, and the NodeForecast objects that follow from them. Pure.

An object is published when a figure has moved by more than a part of the capacity, when the basis or the requests have
changed, and otherwise often enough that readers do not take it for stale. So an idle cluster costs few writes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rota.api import meta, resources, times
from rota.api.resources import CPU, MEMORY
from rota.forecast.arrays import Floats
from rota.forecast.fleet import DEFAULTS, Basis, Fleet, FleetSettings, Forecasts
from rota.forecast.peaks import RESERVES

Object = Mapping[str, Any]
Amounts = Mapping[str, int]

FORECASTS: Final = ("rota.dev", "v1alpha1", "nodeforecasts")
RESOURCES: Final = (CPU, MEMORY)
#: A figure that moved by less than this part of the capacity is not worth a write.
HYSTERESIS: Final = 0.05
#: A forecast is published at least this often.
AT_LEAST_S: Final = 120.0
#: What measures a node: metrics.k8s.io, a Prometheus, or its own worker.
METRICS: Final = "Metrics"
PROMETHEUS: Final = "Prometheus"
WORKER: Final = "Worker"
_FIRST_CAPACITY: Final = 64
_BASES: Final = {Basis.MEASURED: "Measured", Basis.COLD: "Cold", Basis.STALE: "Stale"}


@dataclass(frozen=True, slots=True)
class _Published:
    at_s: float
    figures: Floats
    bases: tuple[int, ...]


class NodeSeries:
    """What is known of the nodes of a cluster."""

    def __init__(
        self, settings: FleetSettings = DEFAULTS, *, source: str = METRICS, rows: int = _FIRST_CAPACITY
    ) -> None:
        """`source` is what measures; there is memory for `rows` nodes at first."""
        self._settings = settings
        self._source = source
        self._fleets = {
            name: Fleet(rows, settings.with_reserve(RESERVES.get(name, settings.reserve))) for name in RESOURCES
        }
        self._rows: dict[str, int] = {}
        self._free: list[int] = list(range(rows))
        self._published: dict[str, _Published] = {}

    def add(self, nodes: Iterable[Object], pods: Iterable[Object], measured: Iterable[Object], now_s: float) -> None:
        """Take the nodes and pods of the cluster, and the NodeMetrics of those that were measured."""
        offers = {meta.name(node): resources.node_allocatable(node) for node in nodes}
        self._keep(offers)
        requests, squares = _sums(pods)
        used = {meta.name(one): one.get("usage") or {} for one in measured}
        for name, fleet in self._fleets.items():
            values = np.full(len(fleet.limits), np.nan)
            for node, row in self._rows.items():
                fleet.limits[row] = offers[node].get(name, 0)
                fleet.requests[row] = requests.get((node, name), 0)
                fleet.limit_norms[row] = np.sqrt(squares.get((node, name), 0.0))
                if name in used.get(node, {}):
                    values[row] = resources.amount(name, used[node][name])
            fleet.add(values, now_s)

    def due(self, now_s: float) -> list[dict[str, Any]]:
        """The objects to publish now."""
        found = {name: fleet.forecast(now_s) for name, fleet in self._fleets.items()}
        due = []
        for node, row in self._rows.items():
            state = self._state(found, row, now_s)
            last = self._published.get(node)
            if last is None or now_s - last.at_s >= AT_LEAST_S or self._moved(state, last, row):
                self._published[node] = state
                due.append(self._document(node, row, found, now_s))
        return due

    def peaks(self, node: str, now_s: float) -> dict[str, float]:
        """The peaks to expect of a node, by resource; NaN for a node without a sample."""
        row = self._rows.get(node)
        if row is None:
            return dict.fromkeys(RESOURCES, float("nan"))
        return {name: float(fleet.forecast(now_s).peak[row]) for name, fleet in self._fleets.items()}

    def unpublished(self, node: str) -> None:
        """Publish the forecast of a node again, because the last one was not written."""
        self._published.pop(node, None)

    def _keep(self, offers: Mapping[str, Amounts]) -> None:
        """Give rows to new nodes, and free those of nodes that are gone."""
        gone = [node for node in self._rows if node not in offers]
        for fleet in self._fleets.values():
            which = np.zeros(len(fleet.limits), dtype=np.bool_)
            which[[self._rows[node] for node in gone]] = True
            fleet.clear(which)
        for node in gone:
            self._free.append(self._rows.pop(node))
            self._published.pop(node, None)
        for node in offers:
            if node in self._rows:
                continue
            if not self._free:
                size = 2 * len(self._rows)
                self._free = list(range(len(self._rows), size))
                self._fleets = {name: fleet.grown(size) for name, fleet in self._fleets.items()}
            self._rows[node] = self._free.pop(0)

    def _state(self, found: Mapping[str, Forecasts], row: int, now_s: float) -> _Published:
        figures = []
        for name, each in found.items():
            figures += [np.nan_to_num(each.used[row]), each.peak[row], self._fleets[name].requests[row]]
        return _Published(now_s, np.array(figures), tuple(int(each.basis[row]) for each in found.values()))

    def _moved(self, state: _Published, last: _Published, row: int) -> bool:
        sizes = np.repeat([max(fleet.limits[row], 1.0) for fleet in self._fleets.values()], 3)
        return state.bases != last.bases or bool((np.abs(state.figures - last.figures) > HYSTERESIS * sizes).any())

    def _document(self, node: str, row: int, found: Mapping[str, Forecasts], now_s: float) -> dict[str, Any]:
        return {
            "apiVersion": "rota.dev/v1alpha1",
            "kind": "NodeForecast",
            "metadata": {"name": node},
            "status": {
                "observedTime": times.format_time(now_s),
                "source": self._source,
                "horizonSeconds": int(self._settings.horizon_s),
                "intervalSeconds": int(self._settings.interval_s),
                "resources": [self._figures(name, each, row) for name, each in found.items()],
            },
        }

    def _figures(self, name: str, found: Forecasts, row: int) -> dict[str, Any]:
        fleet = self._fleets[name]
        mean, deviation = fleet.moments(row)
        record = fleet.records.of(row)
        history = fleet.history(row)
        seen = np.flatnonzero(~np.isnan(history))
        begin = int(seen[0]) if len(seen) else len(history)
        return {
            "resource": name,
            "basis": _BASES[Basis(int(found.basis[row]))],
            "used": _shown(name, found.used[row]),
            "mean": _shown(name, mean),
            "deviation": _shown(name, deviation),
            "peak": _shown(name, found.peak[row]),
            "requested": _shown(name, fleet.requests[row]),
            "history": ["" if np.isnan(each) else _shown(name, each) for each in history[begin:]],
            "record": {
                "forecasts": record.forecasts,
                "violations": record.violations,
                "severity": round(record.severity, 4),
                "savings": round(record.savings, 4),
            },
        }


def workers_own(forecasts: Iterable[Object], now_s: float) -> set[str]:
    """The nodes whose workers publish forecasts themselves, and did so lately."""
    found = set()
    for document in forecasts:
        status = document.get("status") or {}
        observed = status.get("observedTime")
        # A clock that is ahead must not keep a node whose worker is gone.
        if status.get("source") == WORKER and observed and abs(now_s - times.parse(observed)) < 2 * AT_LEAST_S:
            found.add(meta.name(document))
    return found


def _sums(pods: Iterable[Object]) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], float]]:
    """The requests, and the sums of squared requests, of the pods on each node by resource."""
    requests: dict[tuple[str, str], int] = {}
    squares: dict[tuple[str, str], float] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        wanted = resources.pod_requests(pod)
        for name in RESOURCES:
            amount = wanted.get(name, 0)
            requests[node, name] = requests.get((node, name), 0) + amount
            squares[node, name] = squares.get((node, name), 0.0) + float(amount) ** 2
    return requests, squares


def _shown(name: str, value: float) -> str:
    """A quantity: whole millicores or bytes; nothing measured is 0."""
    whole = 0 if np.isnan(value) else int(np.ceil(value))
    return f"{whole}m" if name == CPU else str(whole)
