"""Assignment of devices to containers: device numbers that no other container has at the same time.

A resource with a domain (`nvidia.com/gpu`, `example.com/fpga`) is a list of devices, as many as the node declares. The
scheduler counts them; the worker chooses the numbers, stores them before the container starts, and passes them in
variables. A pod releases its devices when all its containers have ended. Containers reuse the devices of init
containers that ended before them, as the scheduler counts.

On a node that shares its GPUs (`rota.api.gpu_devices`) the scheduler chooses: the pod's annotation names its devices,
and all its containers that ask for GPUs get them. Beside the numbers they get their share in thousandths, and as the
percentage that the driver's Multi-Process Service enforces where it runs.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import gpu_devices, meta, quantities
from rota.client.verbs import Object
from rota.worker.append_log import AppendLog
from rota.worker.runtimes.runtime_interface import Launch, LaunchError

#: Variables that software for such devices reads.
_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    gpu_devices.WHOLE: ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    gpu_devices.SHARE: ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    "amd.com/gpu": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}
#: The share of a container, and the variable by which NVIDIA's Multi-Process Service limits a process to a percentage.
_SHARE_VARIABLES: Final = ("ROTA_GPU_MILLI", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
#: The devices of a pod's containers, by container.
_Held = dict[str, dict[str, list[int]]]


class Devices:
    """The devices of one worker; its own numbers begin, for each resource, with `first`."""

    def __init__(self, path: Path, *, allocatable: Mapping[str, int], first: Mapping[str, int]) -> None:
        self._rows: Final = {
            name: range(first.get(name, 0), first.get(name, 0) + amount)
            for name, amount in allocatable.items()
            if "/" in name and name != gpu_devices.SHARE
        }
        self._first_gpu: Final = first.get(gpu_devices.WHOLE, 0)
        self._shares_gpus: Final = gpu_devices.shareable(allocatable)
        self._append_log: Final = AppendLog(path)
        self._held: Final[dict[str, _Held]] = {}
        for text in self._append_log.texts():
            # An unreadable entry was truncated by a crash and belongs to a container that was not started.
            with contextlib.suppress(ValueError, KeyError):
                record = json.loads(text)
                self._held[record["uid"]] = record["held"]

    def keep(self, uids: Iterable[str]) -> None:
        """Release the devices of all other pods."""
        for uid in self._held.keys() - set(uids):
            self.release(uid)

    def given(self, launch: Launch, pod: Object) -> Launch:
        """The same launch with the requested devices; LaunchError if there are not enough."""
        asked = _wanted(pod, launch.container)
        share = asked.get(gpu_devices.SHARE, 0) if self._shares_gpus else 0
        wanted = {name: amount for name, amount in asked.items() if name in self._rows}
        if not wanted and not share:
            return launch
        held = self._held.get(launch.uid, {})
        if launch.container not in held:
            found = {name: self._free(name, amount, pod, launch.container) for name, amount in wanted.items()}
            if share:
                found[gpu_devices.SHARE] = self._shared(pod)
            held = {**held, launch.container: found}
            self._append_log.put(launch.uid, json.dumps({"uid": launch.uid, "held": held}).encode())
            self._held[launch.uid] = held
        told: dict[str, str] = {}
        if share:
            percentage = max(share * 100 // gpu_devices.MILLI, 1)
            told = dict(zip(_SHARE_VARIABLES, (str(share), str(percentage)), strict=True))
        for name, numbers in held[launch.container].items():
            text = ",".join(str(one) for one in numbers)
            told |= dict.fromkeys((*_KNOWN.get(name, ()), _variable(name)), text)
        # A variable in the pod's spec overrides ours.
        return msgspec.structs.replace(launch, env={**told, **launch.env})

    def release(self, uid: str) -> None:
        """Release the devices of a pod whose containers have ended."""
        if self._held.pop(uid, None) is not None:
            self._append_log.drop(uid)

    def close(self) -> None:
        """Close the file."""
        self._append_log.close()

    def _chosen(self, pod: Object) -> list[int]:
        """The GPUs of this machine that the pod's binding names; none if this node does not share its GPUs."""
        if not self._shares_gpus:
            return []
        annotations: Mapping[str, Any] = (pod.get("metadata") or {}).get("annotations") or {}
        return [self._first_gpu + device for device in gpu_devices.of_annotations(annotations)]

    def _shared(self, pod: Object) -> list[int]:
        """The GPU of a pod that has a share of it; all its containers get the same one."""
        chosen = self._chosen(pod)
        if not chosen:
            why = f"the pod asks for {gpu_devices.SHARE} and its annotation {gpu_devices.ANNOTATION} names no device"
            raise LaunchError("CreateContainerConfigError", why)
        if not self._taken(pod, "", gpu_devices.WHOLE).isdisjoint(chosen):
            why = f"device {chosen[0]} of {gpu_devices.WHOLE} is still with a pod that ends"
            raise LaunchError("CreateContainerConfigError", why)
        return chosen

    def _free(self, name: str, amount: int, pod: Object, container: str) -> list[int]:
        numbers: Sequence[int] = self._rows[name]
        taken = self._taken(pod, container, name)
        if name == gpu_devices.WHOLE:
            numbers = self._chosen(pod) or numbers
            taken |= self._taken(pod, container, gpu_devices.SHARE)
        found = [number for number in numbers if number not in taken][:amount]
        if len(found) < amount:
            raise LaunchError(
                "CreateContainerConfigError",
                f"{amount} of {name} asked for and {len(found)} free: some are still with pods that end",
            )
        return found

    def _taken(self, pod: Object, container: str, name: str) -> set[int]:
        """The devices of other pods, and of containers that run beside this one."""
        own = self._held.get(meta.uid(pod), {})
        # Init containers end before others start, unless they are sidecars.
        passing = _passing(pod)
        beside = {one: numbers for one, numbers in own.items() if one not in passing and one != container}
        others = (numbers for uid, held in self._held.items() if uid != meta.uid(pod) for numbers in held.values())
        return {number for numbers in (*others, *beside.values()) for number in numbers.get(name, ())}


def _wanted(pod: Object, container: str) -> dict[str, int]:
    spec = pod["spec"]
    every: list[Mapping[str, Any]] = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = next((one.get("resources") or {} for one in every if one["name"] == container), {})
    # Extended resources cannot be overcommitted, so the request equals the limit.
    limits: Mapping[str, Any] = asked.get("limits") or {}
    return {name: amount for name in limits if "/" in name and (amount := quantities.value(limits[name])) > 0}


def _passing(pod: Object) -> set[str]:
    init = pod["spec"].get("initContainers") or ()
    return {one["name"] for one in init if one.get("restartPolicy") != "Always"}


def _variable(resource: str) -> str:
    return "ROTA_DEVICES_" + re.sub(r"[^A-Z0-9]", "_", resource.upper())
