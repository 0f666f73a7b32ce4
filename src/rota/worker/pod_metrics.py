"""Metrics of the pods of a worker, read from the pod machine at every scrape."""

from collections import Counter
from typing import Final

from rota.kit.metrics import Metrics
from rota.worker.pod_machine.containers import CRASHING, Stage
from rota.worker.pod_machine.pod_manager import PodMachine

RUNNING: Final = "running"
WAITING: Final = "waiting"
BACKOFF: Final = "backoff"
ENDED: Final = "ended"


def export(metrics: Metrics, machine: PodMachine) -> None:
    """Export the counts of a worker; an agent that replaces another one exports its own machine instead."""
    metrics.follow("pods", "Pods that this worker has, ended ones included.", (), lambda: {(): _pods(machine)})
    metrics.follow(
        "containers",
        "Containers by state: running, waiting, backoff (waiting after they failed repeatedly), ended.",
        ("state",),
        lambda: _containers(machine),
    )
    metrics.follow(
        "container_restarts",
        "Restarts of the containers that this worker has.",
        (),
        lambda: {(): float(sum(one.restarts for pod in machine.pods for one in pod.containers.values()))},
    )


def _pods(machine: PodMachine) -> float:
    return float(sum(1 for _ in machine.pods))


def _containers(machine: PodMachine) -> dict[tuple[str, ...], float]:
    found: Counter[str] = Counter({RUNNING: 0, WAITING: 0, BACKOFF: 0, ENDED: 0})
    for pod in machine.pods:
        for one in pod.containers.values():
            if one.stage is Stage.RUNNING:
                found[RUNNING] += 1
            elif one.stage is Stage.ENDED:
                found[ENDED] += 1
            else:
                found[BACKOFF if one.reason == CRASHING else WAITING] += 1
    return {(state,): float(number) for state, number in found.items()}
