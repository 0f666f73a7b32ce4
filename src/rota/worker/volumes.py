"""Volumes as folders: made before a pod's first container starts, removed after its last.

`emptyDir`, `hostPath`, `configMap`, `secret`, `downwardAPI` and `projected` are made here. Files of projected volumes
are written into a new folder that takes the place of the old one in one step, so that nobody reads half of them.
Whatever else a pod asks for is a message on the pod, and is tried again: a claim may be bound, a ConfigMap made later.
"""

import base64
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rota.api import meta
from rota.client.verbs import Object
from rota.worker import expansion, material
from rota.worker.material import References, Settings
from rota.worker.runtimes.contract import LaunchError, Mount

_DEFAULT_MODE: Final = 0o644


class VolumeError(Exception):
    """A volume cannot be made, and why."""


async def prepare(pod: Object, folder: Path, *, references: References, settings: Settings) -> None:
    """Make all folders of a pod below `folder`; VolumeError names the first that cannot be made."""
    _folder(folder)
    for volume in (pod.get("spec") or {}).get("volumes") or ():
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


def mounts(pod: Object, container: str, folder: Path, environment: Mapping[str, str]) -> list[Mount]:
    """Where a container finds its pod's volumes."""
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
            source = _inside(source, inside)
        found.append(Mount(source=str(source), target=mount["mountPath"], read_only=bool(mount.get("readOnly"))))
    return found


async def _make(
    pod: Object, volume: Mapping[str, Any], path: Path, *, references: References, settings: Settings
) -> None:
    if "emptyDir" in volume:
        _empty(path, ((pod.get("spec") or {}).get("securityContext") or {}).get("fsGroup"))
    elif "hostPath" in volume:
        _host_path(volume["hostPath"] or {})
    elif kind := next((one for one in ("configMap", "secret", "downwardAPI") if one in volume), None):
        wanted = dict(volume[kind] or {})
        if kind == "secret":
            wanted["name"] = wanted.get("secretName", "")
        files = await _files(pod, kind, wanted, references=references, settings=settings)
        _write(path, files, wanted.get("defaultMode"))
    elif "projected" in volume:
        wanted = volume["projected"] or {}
        files = {}
        for source in wanted.get("sources") or ():
            for part in ("configMap", "secret", "downwardAPI"):
                if part in source:
                    files |= await _files(pod, part, source[part] or {}, references=references, settings=settings)
        _write(path, files, wanted.get("defaultMode"))
    else:
        kinds = ", ".join(name for name in volume if name != "name")
        raise LaunchError("", f"volumes of kind {kinds or 'none'} cannot be made here")


def _folder(path: Path) -> None:
    path.mkdir(mode=0o755, parents=True, exist_ok=True)


def _empty(path: Path, group: int | None) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    if group is not None and os.geteuid() == 0:
        os.chown(path, -1, group)
        path.chmod(0o2775)


def _host_path(wanted: Mapping[str, Any]) -> None:
    path, kind = Path(wanted.get("path", "")), wanted.get("type") or ""
    checks = {"Directory": path.is_dir, "File": path.is_file, "Socket": path.is_socket}
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    elif kind in checks and not checks[kind]():
        raise LaunchError("", f"hostPath type check failed: {path} is not a {kind.lower()}")


async def _files(
    pod: Object, kind: str, wanted: Mapping[str, Any], *, references: References, settings: Settings
) -> dict[str, tuple[bytes, int | None]]:
    """What is in one source: paths to contents and modes."""
    namespace, name = meta.namespace(pod), wanted.get("name", "")
    if kind == "downwardAPI":
        return {
            one["path"]: (_shown(pod, one, settings).encode(), one.get("mode")) for one in wanted.get("items") or ()
        }
    values: dict[str, bytes] | None
    if kind == "configMap":
        texts = await references.config_map(namespace, name)
        values = None if texts is None else {key: text.encode() for key, text in texts.items()}
    else:
        coded = await references.secret(namespace, name)
        values = None if coded is None else {key: base64.b64decode(text) for key, text in coded.items()}
    if values is None:
        if wanted.get("optional"):
            return {}
        raise LaunchError("", f'{kind.lower()} "{name}" not found')
    items = wanted.get("items")
    if not items:
        return {key: (value, None) for key, value in values.items()}
    missing = [one["key"] for one in items if one["key"] not in values]
    if missing and not wanted.get("optional"):
        raise LaunchError("", f"references non-existent {kind.lower()} key: {missing[0]}")
    return {one["path"]: (values[one["key"]], one.get("mode")) for one in items if one["key"] in values}


def _shown(pod: Object, item: Mapping[str, Any], settings: Settings) -> str:
    if wanted := item.get("fieldRef"):
        return material.field(pod, wanted.get("fieldPath", ""), settings)
    return material.resource_field(pod, item.get("resourceFieldRef") or {}, None, settings)


def _write(path: Path, files: Mapping[str, tuple[bytes, int | None]], mode: int | None) -> None:
    """Make a folder that holds just these files."""
    draft = path.with_name(f".{path.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o755)
    for name, (content, own) in files.items():
        file = _inside(draft, name)
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(own if own is not None else _DEFAULT_MODE if mode is None else mode)
    if path.exists():
        shutil.rmtree(path)
    draft.rename(path)


def _inside(folder: Path, name: str) -> Path:
    """A path within a folder; LaunchError for one that would leave it."""
    found = folder / name
    if name.startswith("/") or ".." in Path(name).parts:
        raise LaunchError("CreateContainerConfigError", f"the path {name} leaves its volume")
    return found
