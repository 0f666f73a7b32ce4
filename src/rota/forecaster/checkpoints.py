"""VerticalPodAutoscalerCheckpoint objects: the histories of a workload's containers, over restarts. Pure.

The wire is VPA's, so that its recommender and this one can follow each other: the weights of a histogram's buckets are
scaled so that the greatest is 10,000, and the total is beside them.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rota.api import meta, times
from rota.forecast.arrays import Floats
from rota.forecast.histograms import DAY_S, VPA_CPU, VPA_MEMORY, Buckets

Object = Mapping[str, Any]

VERSION: Final = "v3"
#: A container that had its last sample so long before the others is gone; in VPA, too, it is forgotten then.
EXPIRED_S: Final = 8 * DAY_S
_GREATEST: Final = 10_000
#: No history has a weight above this; weights that users write are of any size.
_HEAVIEST: Final = 1e30


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The history of one container; a histogram is its reference time, and its weights by bucket."""

    first_s: float
    last_s: float
    samples: int
    cpu: tuple[float, Floats]
    memory: tuple[float, Floats]


def document(autoscaler: Object, container_name: str, kept: HistoryState, now_s: float) -> dict[str, Any]:
    """The checkpoint of a container; it goes with its autoscaler."""
    owner = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "name": meta.name(autoscaler),
        "uid": meta.uid(autoscaler),
    }
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {
            "name": f"{meta.name(autoscaler)}-{container_name}",
            "namespace": meta.namespace(autoscaler),
            "ownerReferences": [owner],
        },
        "spec": {"vpaObjectName": meta.name(autoscaler), "containerName": container_name},
        "status": {
            "version": VERSION,
            "lastUpdateTime": times.format_time(now_s),
            "firstSampleStart": times.format_time(kept.first_s),
            "lastSampleStart": times.format_time(kept.last_s),
            "totalSamplesCount": kept.samples,
            "cpuHistogram": _histogram(kept.cpu),
            "memoryHistogram": _histogram(kept.memory),
        },
    }


def is_of(autoscaler: Object, checkpoint: Object) -> bool:
    """Whether a checkpoint belongs to an autoscaler."""
    named = (checkpoint.get("spec") or {}).get("vpaObjectName")
    return meta.namespace(checkpoint) == meta.namespace(autoscaler) and named == meta.name(autoscaler)


def container(checkpoint: Object) -> str:
    """The name of the container that a checkpoint is about."""
    return str((checkpoint.get("spec") or {}).get("containerName") or "")


def is_stale(
    checkpoint: Object, autoscalers: Iterable[Object], written: Container[tuple[str, str]], now_s: float
) -> bool:
    """Whether nothing will read a checkpoint any more.

    Its autoscaler is gone, or no process has written it for so long that its container is forgotten; `written` are the
    namespaces and names of those that were written just now.
    """
    if (meta.namespace(checkpoint), meta.name(checkpoint)) in written:
        return False
    if not any(is_of(each, checkpoint) for each in autoscalers):
        return True
    last = (checkpoint.get("status") or {}).get("lastUpdateTime")
    try:
        return last is not None and now_s - times.parse(last) > EXPIRED_S
    except ValueError:
        return False


def state(checkpoint: Object) -> HistoryState | None:
    """The history in a checkpoint; None if it is empty, of another version, or cannot be read."""
    status = checkpoint.get("status") or {}
    if status.get("version") != VERSION or not container(checkpoint):
        return None
    try:
        return HistoryState(
            times.parse(status["firstSampleStart"]),
            times.parse(status["lastSampleStart"]),
            int(status["totalSamplesCount"]),
            _read(status["cpuHistogram"], VPA_CPU),
            _read(status["memoryHistogram"], VPA_MEMORY),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _histogram(kept: tuple[float, Floats]) -> dict[str, Any]:
    reference_s, weights = kept
    # Corrections of daily peaks may leave a rest below zero.
    weights = np.maximum(weights, 0.0)
    greatest = weights.max()
    whole = np.rint(weights / greatest * _GREATEST).astype(int) if greatest > 0 else np.zeros(len(weights), dtype=int)
    return {
        "referenceTimestamp": times.format_time(reference_s),
        "totalWeight": float(weights.sum()),
        "bucketWeights": {str(at): int(whole[at]) for at in np.flatnonzero(whole)},
    }


def _read(histogram: Object, buckets: Buckets) -> tuple[float, Floats]:
    weights = np.zeros(buckets.count)
    for at, weight in (histogram.get("bucketWeights") or {}).items():
        if not (0 <= int(at) < buckets.count and isinstance(weight, int) and 0 <= weight <= _GREATEST):
            raise ValueError(f"bucket {at} cannot be")
        weights[int(at)] = weight
    total = float(histogram.get("totalWeight") or 0.0)
    if not 0 <= total <= _HEAVIEST:
        raise ValueError("the total weight cannot be")
    reference = histogram.get("referenceTimestamp")
    scaled = weights * (total / weights.sum()) if weights.any() else weights
    return times.parse(reference) if reference else 0.0, scaled
