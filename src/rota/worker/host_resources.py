"""What a machine has, and the part of it that pods may use."""

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import resources
from rota.worker.identities import Account
from rota.worker.runtimes.runtime_interface import PROCESS

PODS: Final = 110
#: Kept back for the machine itself, as a share, and at least.
_RESERVED: Final = 0.05
_LEAST_MEMORY: Final = 128 * 1024 * 1024
_GPU: Final = "nvidia.com/gpu"


class HostResources(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as its node tells of it."""

    node: str
    address: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    #: The number of the first device in each row, where several workers share the machine's.
    first_devices: Mapping[str, int] = {}
    #: Where software in pods finds the API: host and port.
    api_server: tuple[str, str] = ("127.0.0.1", "6443")
    #: Of pods that do not name one.
    runtime: str = PROCESS
    #: How many processes a container may have; None for as many as there is room for.
    pids: int | None = None
    #: Whom processes run as whose pods do not say; None for the worker's own user.
    run_as: Account | None = None
    #: Whether pods may have any user of the machine, root included.
    allow_root: bool = False


def measure(
    folder: Path,
    *,
    share: float = 1.0,
    overrides: Mapping[str, int] | None = None,
    reserve: Mapping[str, int] | None = None,
) -> tuple[dict[str, int], dict[str, int]]:
    """What this machine has, and what of it pods may have; whoever names amounts means both.

    `share` is the part of the machine that is meant, where several workers have it together; `reserve` is kept back for
    the machine itself, in place of what is otherwise.
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


def gpus(*, dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> int:
    """How many graphics cards of NVIDIA there are: device files, or what the driver tells while there are none."""
    devices = [one for one in dev.glob("nvidia*") if one.name.removeprefix("nvidia").isdecimal()]
    return len(devices) or len(list(proc.glob("driver/nvidia/gpus/*")))


def own_address(toward: str = "192.0.2.1") -> str:
    """The address by which this machine goes out to another; loopback where there is no way to it."""
    try:
        # Nothing is sent: connecting a datagram socket only chooses a way.
        family, kind, protocol, _, place = socket.getaddrinfo(toward, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            found: str = probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"
    return found


def has_address(address: str) -> bool:
    """Whether an address is one of this machine's own."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


def system_info(incarnation: str, *, runtime: str = PROCESS) -> dict[str, Any]:
    """The node's `nodeInfo`; `runtime` is the one of pods that do not name one."""
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
        # Another one for each start of the agent: what a former one claimed is not this one's.
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
