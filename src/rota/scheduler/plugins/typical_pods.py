"""The workload that a GPU policy expects, as an argument of its plugin; not a plugin itself.

    typicalPods:
    - {cpu: 4, gpuMilli: 500, weight: 30}
    - {cpu: 12, gpus: 1, models: [T4, A10], weight: 12}

`counted` computes the argument from the pods of a trace or a cluster: the most frequent shapes until they are 95 % of
all pods, as the authors of Fragmentation Gradient Descent do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rota.api import gpu_devices, quantities
from rota.api.gpu_devices import MILLI, MODEL_LABEL, Demand
from rota.api.resources import CPU
from rota.columns.gpu_workload import TypicalPod, Workload
from rota.columns.pods import PodShape
from rota.kit.errors import UserError
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct

#: The part of all pods that the typical ones make up.
POPULAR: Final = 0.95


class TypicalPodSpec(WireStruct, frozen=True):
    """One shape of pods."""

    cpu: str | int | float = 0
    #: Whole GPUs, or thousandths of one.
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()
    weight: float = 1.0


class GradientArgs(WireStruct, frozen=True):
    """Arguments of the policies that score by a workload."""

    typical_pods: tuple[TypicalPodSpec, ...] = ()

    def faults(self) -> Iterator[Fault]:
        """Pods that cannot be, and a workload without GPUs."""
        for position, pod in enumerate(self.typical_pods):
            at = f"typicalPods[{position}]"
            if pod.gpus < 0 or not 0 <= pod.gpu_milli <= MILLI or (pod.gpus and pod.gpu_milli):
                yield Fault(at, f"give gpus, or gpuMilli from 1 to {MILLI}, or neither")
            if pod.weight <= 0:
                yield Fault(f"{at}.weight", "must be greater than 0")
            try:
                quantities.milli(pod.cpu)
            except ValueError as error:
                yield Fault(f"{at}.cpu", str(error))
        if self.typical_pods and not any(pod.gpus or pod.gpu_milli for pod in self.typical_pods):
            yield Fault("typicalPods", "needs at least one pod with gpus or gpuMilli; weigh them as often as they come")


def workload(specs: Sequence[TypicalPodSpec], plugin: str) -> Workload:
    """The typical pods of a plugin's argument, without which it cannot score."""
    if not specs:
        raise UserError(f"{plugin} has no typicalPods", "give them in pluginConfig, weighed as often as they come")
    return Workload(
        [
            TypicalPod(
                cpu=quantities.milli(spec.cpu),
                demand=Demand(1, spec.gpu_milli) if spec.gpu_milli else Demand(spec.gpus, MILLI if spec.gpus else 0),
                models=frozenset(spec.models),
                weight=spec.weight,
            )
            for spec in specs
        ]
    )


def counted(shapes: Iterable[tuple[PodShape, int]], *, popular: float = POPULAR) -> list[dict[str, Any]]:
    """The argument `typicalPods` of these shapes and their numbers of pods, the most frequent first."""
    numbers: Counter[tuple[int, int, int, tuple[str, ...]]] = Counter()
    for shape, number in shapes:
        wanted = gpu_devices.demand(shape.requests)
        numbers[shape.requests.get(CPU, 0), wanted.milli, wanted.gpus, _models(shape)] += number
    total, seen = numbers.total(), 0
    typical: list[dict[str, Any]] = []
    for (cpu, milli, gpus, models), number in sorted(
        numbers.items(), key=lambda each: (each[1], each[0]), reverse=True
    ):
        if seen >= popular * total:
            break
        seen += number
        wanted_gpus: Mapping[str, int] = {"gpuMilli": milli} if gpus and milli < MILLI else {"gpus": gpus}
        typical.append({"cpu": f"{cpu}m", **wanted_gpus, "models": list(models), "weight": number})
    return typical


def _models(shape: PodShape) -> tuple[str, ...]:
    """The models of GPUs that a pod's required node affinity names."""
    required = shape.node_affinity and shape.node_affinity.requiredDuringSchedulingIgnoredDuringExecution
    if not required:
        return ()
    return tuple(
        sorted(
            value
            for term in required.nodeSelectorTerms or ()
            for each in term.matchExpressions or ()
            if each.key == MODEL_LABEL and each.operator == "In"
            for value in each.values or ()
        )
    )
