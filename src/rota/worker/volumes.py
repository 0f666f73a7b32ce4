"""Volumes as folders: made before a pod's first container starts, removed after its last.

`emptyDir`, `hostPath`, `configMap`, `secret`, `downwardAPI` and `projected` are supported; the content of the last four
(`projections.py`) is refreshed while the pod runs. For any other volume the pod gets a message, and the volume is tried
again: a claim may be bound, a ConfigMap created later.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from rota.api import quantities
from rota.client.verbs import Object
from rota.worker import expansion, projections
from rota.worker.container_config import Settings
from rota.worker.references import References
from rota.worker.runtimes.runtime_interface import LaunchError, Mount

_CONFIG: Final = "CreateContainerConfigError"


class VolumeError(Exception):
    """A volume cannot be made; the message says why."""


async def prepare(pod: Object, folder: Path, *, references: References, settings: Settings) -> None:
    """Make all folders of a pod below `folder`; VolumeError names the first that cannot be made."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if volumes:
        _folder(folder)
    for volume in volumes:
        try:
            await _make(pod, volume, folder / volume["name"], references=references, settings=settings)
        except LaunchError as problem:
            raise VolumeError(
                f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem.message}'
            ) from problem
        except OSError as problem:
            raise VolumeError(
                f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem.strerror}'
            ) from problem


def may_change(pod: Object) -> bool:
    """Whether a pod has volumes whose files follow API objects."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any(kind in volume for volume in volumes for kind in projections.KINDS)


async def refresh(pod: Object, folder: Path, *, references: References, settings: Settings) -> list[str]:
    """Refresh the files of a running pod; returns the names of volumes that have changed.

    If the source of a volume is gone, the volume stays as it was, and VolumeError is raised after the other volumes.
    """
    changed, problems = [], []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if any(kind in volume for kind in projections.KINDS) and (folder / volume["name"]).is_dir():
            try:
                if await _make(pod, volume, folder / volume["name"], references=references, settings=settings):
                    changed.append(volume["name"])
            except LaunchError as problem:
                problems.append(f'volume "{volume["name"]}" : {problem.message}')
    if problems:
        raise VolumeError("; ".join(problems))
    return changed


def remove(folder: Path, *, keep: Collection[str] = ()) -> None:
    """Unmount and remove the volumes of a pod; entries of the folder with these names stay."""
    entries = list(folder.iterdir())
    for path in entries:
        if os.path.ismount(path):
            subprocess.run([_program("umount"), "--lazy", str(path)], capture_output=True, check=False)
    kept = {path for path in entries if path.name in keep}
    for path in set(entries) - kept if kept else {folder}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def mounts(pod: Object, container: str, folder: Path, environment: Mapping[str, str]) -> list[Mount]:
    """The mounts of a container's volumes."""
    spec = pod.get("spec") or {}
    volumes = {one["name"]: one for one in spec.get("volumes") or ()}
    wanted = next(
        one for kind in ("containers", "initContainers") for one in spec.get(kind) or () if one.get("name") == container
    )
    found = []
    for mount in wanted.get("volumeMounts") or ():
        volume = volumes.get(mount["name"]) or {}
        host = (volume.get("hostPath") or {}).get("path")
        source = Path(host) if host else folder / mount["name"]
        inside = mount.get("subPath") or expansion.expand(mount.get("subPathExpr") or "", environment)
        if inside:
            inside = _inside(source, inside, makes=not any(kind in volume for kind in projections.KINDS))
        target, read_only = mount["mountPath"], _is_read_only(mount, volume)
        found.append(Mount(source=str(source), inside=inside, target=target, read_only=read_only, own=not host))
    return found


def _is_read_only(mount: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    # Files that follow API objects are read-only for containers.
    return bool(mount.get("readOnly")) or any(kind in volume for kind in projections.KINDS)


async def _make(
    pod: Object, volume: Mapping[str, Any], path: Path, *, references: References, settings: Settings
) -> bool:
    """Make a volume; returns whether it changed."""
    group = ((pod.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    if "emptyDir" in volume:
        wanted = volume["emptyDir"] or {}
        if wanted.get("medium") == "Memory":
            await asyncio.to_thread(_in_memory, path, wanted.get("sizeLimit"))
        _empty(path, group)
    elif "hostPath" in volume:
        _host_path(volume["hostPath"] or {})
    elif any(kind in volume for kind in projections.KINDS):
        files = await projections.files(pod, volume, references=references, settings=settings)
        return await asyncio.to_thread(projections.write, path, files, group=group)
    else:
        kinds = ", ".join(name for name in volume if name != "name")
        raise LaunchError("", f"volumes of kind {kinds or 'none'} cannot be made here")
    return True


def _folder(path: Path) -> None:
    path.mkdir(mode=0o755, parents=True, exist_ok=True)


def _empty(path: Path, group: int | None) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    if group is not None and os.geteuid() == 0:
        os.chown(path, -1, group)
        path.chmod(0o2775)


def _in_memory(path: Path, limit: Any) -> None:
    """A tmpfs, whose pages count as the writer's memory; only root can mount one."""
    if os.geteuid() != 0:
        raise LaunchError("", "a volume in memory takes root, which this worker does not run as")
    path.mkdir(exist_ok=True)
    if os.path.ismount(path):
        return
    options = "nosuid,nodev" + (f",size={quantities.value(limit)}" if limit not in {None, "", "0"} else "")
    argv = [_program("mount"), "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise LaunchError("", answer.stderr.strip())


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LaunchError("", f"{name} is not installed")
    return found


def _host_path(wanted: Mapping[str, Any]) -> None:
    path, kind = Path(wanted.get("path", "")), wanted.get("type") or ""
    checks = {
        "Directory": path.is_dir,
        "File": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }
    if kind == "DirectoryOrCreate" or (not kind and not path.exists()):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    elif kind in checks and not checks[kind]():
        raise LaunchError("", f"hostPath type check failed: {path} is not a {kind.lower()}")


def _inside(folder: Path, name: str, *, makes: bool) -> str:
    """A path within a volume and without links, created if it is missing; LaunchError for one outside of the volume.

    Containers may create links in it at any time. The links are resolved here; each folder is opened from its parent
    without following links, and the mount does that again.
    """
    if name.startswith("/") or ".." in Path(name).parts:
        raise LaunchError(_CONFIG, f"the path {name} leaves its volume")
    root, found = folder.resolve(), (folder / name).resolve()
    if found != root and root not in found.parents:
        raise LaunchError(_CONFIG, f"the path {name} leaves its volume through a link")
    with contextlib.ExitStack() as opened:
        at = _opened(root, opened)
        mode = os.fstat(at).st_mode & 0o7777
        parts = found.relative_to(root).parts
        for part in parts:
            try:
                is_folder = stat.S_ISDIR(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                if not makes:
                    raise LaunchError(_CONFIG, f"there is no {name} in the volume") from None
                os.mkdir(part, 0o755, dir_fd=at)
                is_folder = True
                _set_mode(part, mode, at)
            if not is_folder:
                break  # a file, or a link that was just created: the mount checks it
            at = _opened(part, opened, at=at)
    return "/".join(parts)


def _opened(path: str | Path, opened: contextlib.ExitStack, *, at: int | None = None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if at is None else os.O_NOFOLLOW)
    try:
        file = os.open(path, flags, dir_fd=at)
    except OSError as problem:
        raise LaunchError(_CONFIG, f"the path {path} cannot be opened: {problem.strerror}") from problem
    opened.callback(os.close, file)
    return file


def _set_mode(name: str, mode: int, at: int) -> None:
    """Of a folder that was just created; not of a link's target."""
    file = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.fchmod(file, mode)
    finally:
        os.close(file)
