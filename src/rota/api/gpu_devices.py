"""GPUs as devices: what a pod asks for, which devices of a node it has, and whether they have enough left. Pure.

A pod asks for whole GPUs (`nvidia.com/gpu: 2`) or for a share of one GPU in thousandths (`rota.dev/gpu-milli: 250`),
not for both. A node whose GPUs may be shared declares `rota.dev/gpu-milli`, a thousand for each GPU, beside
`nvidia.com/gpu`. The devices of a pod are in its annotation `rota.dev/gpu-devices`, by number from 0 ("0" or "2,3");
the Binding sets it.

The scheduler chooses devices with this code and the API server checks bindings with it. The invariant that both keep:
the pods on a device take at most a thousand thousandths of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

WHOLE: Final = "nvidia.com/gpu"
SHARE: Final = "rota.dev/gpu-milli"
#: The annotation of a pod, and of its Binding, with the numbers of its devices.
ANNOTATION: Final = "rota.dev/gpu-devices"
#: The label of a node with the model of its GPUs, as NVIDIA's feature discovery sets it.
MODEL_LABEL: Final = "nvidia.com/gpu.product"
#: Thousandths of one device.
MILLI: Final = 1000

#: The numbers of devices, in ascending order.
Devices: TypeAlias = tuple[int, ...]


class Demand(NamedTuple):
    """The GPUs that a pod asks for: so many devices, and so many thousandths of each."""

    gpus: int
    milli: int

    @property
    def total(self) -> int:
        """Thousandths of all devices together."""
        return self.gpus * self.milli

    @property
    def resource(self) -> str:
        """The name of the resource that the pod asks for."""
        return WHOLE if self.milli == MILLI else SHARE


NOTHING: Final = Demand(0, 0)


def demand(requests: Mapping[str, int]) -> Demand:
    """The demand of a pod's requests; a share above one device never fits."""
    whole, share = requests.get(WHOLE, 0), requests.get(SHARE, 0)
    if whole:
        return Demand(whole, MILLI)
    return Demand(1, share) if share else NOTHING


def contradictory(requests: Mapping[str, int]) -> str:
    """Why no node can ever serve these requests; empty if nothing is wrong with them."""
    if requests.get(WHOLE) and requests.get(SHARE):
        return f"a pod asks for {WHOLE} or for {SHARE}, not for both"
    if requests.get(SHARE, 0) > MILLI:
        return f"a pod can ask for at most {MILLI} of {SHARE}, which is one GPU"
    return ""


def shareable(allocatable: Mapping[str, int]) -> bool:
    """Whether pods may share the GPUs of a node."""
    return allocatable.get(SHARE, 0) > 0


def number(allocatable: Mapping[str, int]) -> int:
    """How many devices a node has."""
    return max(allocatable.get(WHOLE, 0), allocatable.get(SHARE, 0) // MILLI)


def best_fit(free: Sequence[int], wanted: Demand) -> Devices | None:
    """The devices with the least left that have enough, the lowest numbers of equals; None if there are too few."""
    enough = sorted((left, number) for number, left in enumerate(free) if left >= wanted.milli)
    if len(enough) < wanted.gpus:
        return None
    return tuple(sorted(number for _, number in enough[: wanted.gpus]))


def shortage(free: Sequence[int], wanted: Demand, devices: Devices) -> str:
    """Why these devices cannot serve the demand; empty if they can."""
    if len(devices) != wanted.gpus or len(set(devices)) != len(devices):
        return f"{wanted.gpus} different devices are needed, {ANNOTATION} names {shown(devices) or 'none'}"
    for each in devices:
        left = free[each] if each < len(free) else 0
        if left < wanted.milli:
            return f"device {each} has {left} of {MILLI} thousandths free, requested {wanted.milli}"
    return ""


def parsed(text: str) -> Devices | None:
    """The devices of an annotation; None if it is not a list of different numbers."""
    parts = text.split(",") if text else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        return None
    found = tuple(sorted(map(int, parts)))
    return found if len(set(found)) == len(found) else None


def shown(devices: Devices) -> str:
    """Devices as an annotation."""
    return ",".join(map(str, devices))


def of_annotations(annotations: Mapping[str, Any] | None) -> Devices:
    """The devices that annotations name; none if they name none, or nothing that can be read."""
    if not annotations:
        return ()
    text = annotations.get(ANNOTATION)
    return (parsed(text) or ()) if isinstance(text, str) else ()
