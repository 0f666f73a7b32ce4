"""Assignment of devices to containers: device numbers that no other container has at the same time.

A resource with a domain (`nvidia.com/gpu`, `example.com/fpga`) is a list of devices, as many as the node declares. The
scheduler counts them; the worker chooses the numbers, stores them before the container starts, and passes them in
variables. A pod releases its devices when all its containers have ended. Containers reuse the devices of init
containers that ended before them, as the scheduler counts.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import meta, quantities
from rota.client.verbs import Object
from rota.worker.append_log import AppendLog
from rota.worker.runtimes.runtime_interface import Launch, LaunchError

#: Variables that software for such devices reads.
_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "nvidia.com/gpu": ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    "amd.com/gpu": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}
#: The devices of a pod's containers, by container.
_Held = dict[str, dict[str, list[int]]]


class Devices:
    """The devices of one worker; its own numbers begin, for each resource, with `first`."""

    def __init__(self, path: Path, *, allocatable: Mapping[str, int], first: Mapping[str, int]) -> None:
        self._rows: Final = {
            name: range(first.get(name, 0), first.get(name, 0) + amount)
            for name, amount in allocatable.items()
            if "/" in name
        }
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
        wanted = {name: amount for name, amount in _wanted(pod, launch.container).items() if name in self._rows}
        if not wanted:
            return launch
        held = self._held.get(launch.uid, {})
        if launch.container not in held:
            found = {name: self._free(name, amount, pod, launch.container) for name, amount in wanted.items()}
            held = {**held, launch.container: found}
            self._append_log.put(launch.uid, json.dumps({"uid": launch.uid, "held": held}).encode())
            self._held[launch.uid] = held
        told: dict[str, str] = {}
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

    def _free(self, name: str, amount: int, pod: Object, container: str) -> list[int]:
        own = self._held.get(meta.uid(pod), {})
        # Init containers end before others start, unless they are sidecars.
        passing = _passing(pod)
        beside = {one: numbers for one, numbers in own.items() if one not in passing and one != container}
        others = (numbers for uid, held in self._held.items() if uid != meta.uid(pod) for numbers in held.values())
        taken = {number for numbers in (*others, *beside.values()) for number in numbers.get(name, ())}
        found = [number for number in self._rows[name] if number not in taken][:amount]
        if len(found) < amount:
            raise LaunchError(
                "CreateContainerConfigError",
                f"{amount} of {name} asked for and {len(found)} free: some are still with pods that end",
            )
        return found


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
