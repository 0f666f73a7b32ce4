"""The GPUs of nodes and pods, in thousandths of a GPU, as reports count them. Pure."""

from collections.abc import Mapping

from rota.api.gpu_devices import MILLI, SHARE, WHOLE


def milli(amounts: Mapping[str, int]) -> int:
    """Thousandths of GPUs that requests take."""
    return amounts.get(WHOLE, 0) * MILLI + amounts.get(SHARE, 0)


def capacity(allocatable: Mapping[str, int]) -> int:
    """Thousandths of GPUs that a node has."""
    return allocatable.get(WHOLE, 0) * MILLI
