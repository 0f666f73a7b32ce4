"""OCI bundles: the `config.json` that an engine runs. Pure.

Fields that the pod leaves open come from the image: entry point, variables, working directory and user. The network is
the machine's, as for processes; the container has its own mount, UTS, IPC and PID namespaces. There is no cgroup in it:
the shim starts the engine in a cgroup with the limits, and its children inherit it.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.worker.runtimes.container.images import Config
from rota.worker.runtimes.container.users import User
from rota.worker.runtimes.runtime_interface import Launch, LaunchError, Mount, Security

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Capabilities of root in a container. CAP_MKNOD is not included: no device cgroup restricts containers.
_CAPABILITIES: Final = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
_ALL_CAPABILITIES: Final = (
    *_CAPABILITIES, "AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH",
    "IPC_LOCK", "IPC_OWNER", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN",
    "NET_BROADCAST", "PERFMON", "SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE",
    "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "SYSLOG", "WAKE_ALARM",
)  # fmt: skip
_MASKED: Final = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip
_READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
#: The annotation's name, as other tools write it.
STOP_SIGNAL: Final = "org.opencontainers.image.stopSignal"
#: The kernel's limit.
LONGEST_HOST_NAME: Final = 63


def command(launch: Launch, image: Config) -> list[str]:
    """The command: the pod's command replaces the entry point, its args the image's; LaunchError if there is none."""
    own = [*launch.command, *launch.args]
    argv = own if launch.command else [*image.entrypoint, *(launch.args or image.cmd)]
    if not argv:
        raise LaunchError(
            "CreateContainerError", f'no command specified: neither the pod nor the image "{launch.image}" names one'
        )
    return argv


def environment(launch: Launch, image: Config) -> dict[str, str]:
    """The image's variables, overridden by the pod's."""
    return {"PATH": _PATH, **image.env, **launch.env}


def config(
    launch: Launch, image: Config, user: User, *, namespaces: Mapping[str, str], files: Sequence[Mount]
) -> dict[str, Any]:
    """The engine's configuration; `namespaces` are the pod's, by type and file, `files` mounts of all containers."""
    security = launch.security
    cwd = launch.working_dir or image.working_dir or "/"
    targets = {one.target.rstrip("/") for one in launch.mounts}
    mounts = [one for one in (*_base(security), *map(_bind, files)) if one["destination"] not in targets]
    return {
        "ociVersion": "1.0.2",
        "annotations": {STOP_SIGNAL: str(signal_number(image.stop_signal))},
        "root": {"path": "rootfs", "readonly": security.read_only_root},
        "process": {
            "terminal": launch.tty,
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": sorted({*user.groups, *launch.groups})},
            "args": command(launch, image),
            "env": [f"{name}={value}" for name, value in environment(launch, image).items()],
            "cwd": cwd,
            "capabilities": _capabilities(security, root=user.uid == 0),
            "noNewPrivileges": not (security.may_gain or security.privileged),
        },
        "mounts": [*mounts, *map(_bind, launch.mounts)],
        "linux": {
            "namespaces": _namespaces(launch, namespaces),
            "maskedPaths": [] if security.privileged else list(_MASKED),
            "readonlyPaths": [] if security.privileged else list(_READ_ONLY),
        },
    }


def unusual(capabilities: Sequence[str]) -> list[str]:
    """The capabilities that root in a container does not have by default."""
    return sorted(_plain(capabilities) - set(_CAPABILITIES))


def signal_number(name: str) -> int:
    """The signal that an image names: `SIGQUIT`, `QUIT` or `3`; SIGTERM for none and for an unknown one."""
    if name.isdecimal():
        return int(name) if int(name) in set(signal.Signals) else int(signal.SIGTERM)
    found = signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}", signal.SIGTERM)
    return int(found)


def _namespaces(launch: Launch, shared: Mapping[str, str]) -> list[dict[str, str]]:
    found = [{"type": "mount"}, *({"type": kind, "path": path} for kind, path in shared.items())]
    return found if launch.host_pid else [*found, {"type": "pid"}]


def _capabilities(security: Security, *, root: bool) -> dict[str, list[str]]:
    names = set(_ALL_CAPABILITIES if security.privileged else _CAPABILITIES)
    if "ALL" in _plain(security.drop):
        names.clear()
    names -= _plain(security.drop)
    added = _plain(security.add)
    names |= set(_ALL_CAPABILITIES) if "ALL" in added else added
    held = sorted(f"CAP_{name}" for name in names)
    # A user other than root has none, but may gain file capabilities.
    own = held if root else []
    return {"bounding": held, "effective": own, "permitted": own, "inheritable": [], "ambient": []}


def _plain(names: Sequence[str]) -> set[str]:
    return {name.upper().removeprefix("CAP_") for name in names}


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "rprivate", "ro" if mount.read_only else "rw"]
    return {"destination": mount.target.rstrip("/"), "type": "bind", "source": mount.source, "options": options}


def _base(security: Security) -> list[dict[str, Any]]:
    quiet = ["nosuid", "noexec", "nodev"]
    devices: list[dict[str, Any]] = [
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": quiet},
    ]
    if security.privileged:
        devices = [_bind(Mount(source="/dev", target="/dev"))]
    access = "rw" if security.privileged else "ro"
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": quiet},
        *devices,
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*quiet, access]},
    ]
