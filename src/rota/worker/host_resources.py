"""The resources of a machine, and the part that pods may use."""

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import reclaimed, resources
from rota.worker.identities import Account
from rota.worker.runtimes.runtime_interface import PROCESS

PODS: Final = 110
#: Reserved for the system: a share, and a minimum.
_RESERVED: Final = 0.05
_LEAST_MEMORY: Final = 128 * 1024 * 1024
_GPU: Final = "nvidia.com/gpu"


class HostResources(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as its node reports it."""

    node: str
    address: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    #: The most that the node may ever declare of the resources of the batch class; empty if it sells none.
    sold: Mapping[str, int] = {}
    #: The first device number of each resource, if several workers share the machine.
    first_devices: Mapping[str, int] = {}
    #: The API's host and port for software in pods.
    api_server: tuple[str, str] = ("127.0.0.1", "6443")
    #: The runtime of pods that do not name one.
    runtime: str = PROCESS
    #: The limit of processes per container; None for no limit.
    pids: int | None = None
    #: The account of processes whose pods set no user; None for the worker's own user.
    run_as: Account | None = None
    #: Whether pods may run as any user of the machine, root included.
    allow_root: bool = False


def measure(
    folder: Path,
    *,
    share: float = 1.0,
    overrides: Mapping[str, int] | None = None,
    reserve: Mapping[str, int] | None = None,
) -> tuple[dict[str, int], dict[str, int]]:
    """The resources of this machine, and those that pods may use; amounts that an operator sets count as both.

    `share` is the part of the machine for this worker, if several share it; `reserve` replaces the default reservation
    for the system.
    """
    capacity = {
        resources.CPU: len(os.sched_getaffinity(0)) * 1000,
        resources.MEMORY: _memory(),
        resources.EPHEMERAL_STORAGE: shutil.disk_usage(folder).total,
        resources.PODS: PODS,
    }
    if found := gpus():
        capacity[_GPU] = found
    capacity = {name: amount if name == resources.PODS else int(amount * share) for name, amount in capacity.items()}
    kept = {
        resources.MEMORY: max(int(capacity[resources.MEMORY] * _RESERVED), _LEAST_MEMORY),
        resources.EPHEMERAL_STORAGE: int(capacity[resources.EPHEMERAL_STORAGE] * _RESERVED),
        **(reserve or {}),
    }
    allocatable = {name: max(amount - kept.get(name, 0), 0) for name, amount in capacity.items()}
    return capacity | dict(overrides or {}), allocatable | dict(overrides or {})


def sellable() -> dict[str, int]:
    """The most that a node may sell to batch pods: all of the machine."""
    return {reclaimed.BATCH_CPU: len(os.sched_getaffinity(0)) * 1000, reclaimed.BATCH_MEMORY: _memory()}


def gpus(*, dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> int:
    """The number of NVIDIA GPUs: device files, or the driver's list if there are none."""
    devices = [one for one in dev.glob("nvidia*") if one.name.removeprefix("nvidia").isdecimal()]
    return len(devices) or len(list(proc.glob("driver/nvidia/gpus/*")))


def own_address(toward: str = "192.0.2.1") -> str:
    """The address by which this machine reaches another one; loopback if there is no route."""
    try:
        # Nothing is sent: connecting a datagram socket only selects a route.
        family, kind, protocol, _, place = socket.getaddrinfo(toward, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            found: str = probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"
    return found


def has_address(address: str) -> bool:
    """Whether an address belongs to this machine."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


def system_info(incarnation: str, *, runtime: str = PROCESS) -> dict[str, Any]:
    """The node's `nodeInfo`; `runtime` is that of pods that do not name one."""
    system = platform.uname()
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(system.machine, system.machine),
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"rota://{runtime}",
        "kernelVersion": system.release,
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.33.0-rota",
        "machineID": _text("/etc/machine-id"),
        "operatingSystem": system.system.lower(),
        "osImage": _os_name(),
        # Different for each start of the agent, so that a former agent's Lease is not taken for this one's.
        "systemUUID": incarnation,
    }


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_name() -> str:
    for line in _text("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return platform.system()
