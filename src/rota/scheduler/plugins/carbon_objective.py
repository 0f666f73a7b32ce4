"""CarbonObjective: by how many grams of CO2 per hour a pod adds to the emissions of a node.

It is the growth of power by the models of PowerObjective, times the intensity of the node's zone. Intensities are
arguments. The scheduler takes over a changed configuration file without a restart, so a program that writes the current
intensities into the file is the signal. The same holds for a price of energy in place of the intensity.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

from rota.api.resources import CPU
from rota.columns.arrays import FloatArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.power_models import PowerModel
from rota.scheduler.plugins.power_objective import PowerObjectiveArgs, watts_grown


class Intensity(WireStruct, frozen=True):
    """The grams per kilowatt-hour of a zone; an empty zone stands for all others."""

    zone: str = ""
    grams_per_kwh: float = 400.0


class CarbonObjectiveArgs(WireStruct, frozen=True):
    """Arguments of CarbonObjective."""

    models: tuple[PowerModel, ...] = (PowerModel(),)
    intensities: tuple[Intensity, ...] = (Intensity(),)
    zone_label: str = "topology.kubernetes.io/zone"
    greatest_grams: float = 1000.0

    def faults(self) -> Iterator[Fault]:
        """Models and intensities that cannot be, and zones without one."""
        yield from PowerObjectiveArgs(models=self.models).faults()
        if "" not in {each.zone for each in self.intensities}:
            yield Fault("intensities", "needs one intensity without a zone, for all others")
        if any(each.grams_per_kwh < 0 for each in self.intensities):
            yield Fault("intensities", "must not be negative")
        if self.greatest_grams <= 0:
            yield Fault("greatestGrams", "must be positive")


class CarbonObjective(Objective):
    """Score by the growth of emissions."""

    name: ClassVar[str] = "CarbonObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = CarbonObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "g/h"

    def __init__(self, args: CarbonObjectiveArgs, handle: Handle) -> None:
        self._args = args
        self._models = sorted(args.models, key=lambda model: model.name)
        self.greatest = args.greatest_grams

    def signature(self, pod: PodInfo) -> Hashable:
        """The request of cpu."""
        return pod.shape.requests.get(CPU, 0)

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The growth in grams per hour."""
        watts = watts_grown(self._models, pod, cluster, rows)
        zones = cluster.labels.column(self._args.zone_label)
        grams = watts * 0.0
        for each in sorted(self._args.intensities, key=lambda intensity: intensity.zone):
            there = zones.where(frozenset({each.zone}), rows) if each.zone else slice(None)
            grams[there] = each.grams_per_kwh
        return watts / 1000.0 * grams
