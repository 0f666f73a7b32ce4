"""Files made from API objects: ConfigMaps, Secrets, fields of the pod, tokens.

The layout is the kubelet's: `..data` is a symlink to a hidden folder with the files, and each file name is a symlink
through it. An update writes a new hidden folder and replaces the one symlink atomically: a reader sees all of the old
files or all of the new ones, while the mounted folder stays the same.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rota.api import meta
from rota.client.verbs import Object
from rota.worker import container_config
from rota.worker import references as lookups
from rota.worker.container_config import Settings
from rota.worker.references import References
from rota.worker.runtimes.runtime_interface import LaunchError

KINDS: Final = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_MODE: Final = 0o644
_TOKEN_MODE: Final = 0o600
_DATA: Final = "..data"
#: Mode bits for the fsGroup of a volume.
_GROUP_FILE: Final = 0o440
_GROUP_FOLDER: Final = 0o2550


class File(NamedTuple):
    """A file to write."""

    content: bytes
    #: None for the volume's default mode.
    mode: int | None = None


async def files(
    pod: Object, volume: Mapping[str, Any], *, references: References, settings: Settings
) -> dict[str, File]:
    """The files of a volume, by path; LaunchError if a source is missing."""
    kind = next(one for one in KINDS if one in volume)
    wanted: Mapping[str, Any] = volume[kind] or {}
    sources = wanted.get("sources") or () if kind == "projected" else ({kind: _named(kind, wanted)},)
    found: dict[str, File] = {}
    for source in sources:
        for part, details in source.items():
            found |= await _part(pod, part, details or {}, references=references, settings=settings)
    default = wanted.get("defaultMode")
    mode = _DEFAULT_MODE if default is None else default
    return {name: File(one.content, mode if one.mode is None else one.mode) for name, one in found.items()}


def write(folder: Path, wanted: Mapping[str, File], *, group: int | None) -> bool:
    """Make a folder contain exactly these files, readable by a group if given; returns whether anything changed."""
    for name in wanted:
        _check(name)
    folder.mkdir(mode=0o755, exist_ok=True)
    present = folder / _DATA
    before = present.resolve() if present.exists() else None
    if before is not None and _read(before) == {name: one.content for name, one in wanted.items()}:
        return False
    after = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    after.chmod(0o755)
    for name, one in wanted.items():
        path = after / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(one.content)
        path.chmod(_DEFAULT_MODE if one.mode is None else one.mode)
    if group is not None:
        _give(folder, after, group)
    draft = folder / f"{_DATA}_draft"
    draft.unlink(missing_ok=True)
    draft.symlink_to(after.name)
    draft.replace(present)
    _link(folder, {name.partition("/")[0] for name in wanted})
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
    return True


async def _part(
    pod: Object, kind: str, wanted: Mapping[str, Any], *, references: References, settings: Settings
) -> dict[str, File]:
    match kind:
        case "downwardAPI":
            items = wanted.get("items") or ()
            return {one["path"]: File(_shown(pod, one, settings).encode(), one.get("mode")) for one in items}
        case "serviceAccountToken":
            return await _token(pod, wanted, references)
        case "configMap" | "secret":
            return _chosen(kind, wanted, await _values(kind, meta.namespace(pod), wanted, references))
        case _:
            raise LaunchError("", f"files from {kind} cannot be made here")


async def _token(pod: Object, wanted: Mapping[str, Any], lookup: References) -> dict[str, File]:
    token = await lookup.token(lookups.token_of(pod, wanted))
    group = ((pod.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    # As upstream: if the volume has an fsGroup, other users need not read the token.
    return {wanted.get("path", "token"): File(token.encode(), None if group is None else _TOKEN_MODE)}


async def _values(
    kind: str, namespace: str, wanted: Mapping[str, Any], lookup: References
) -> Mapping[str, bytes] | None:
    name = wanted.get("name", "")
    if kind == "secret":
        return await lookup.secret(namespace, name)
    found = await lookup.config_map(namespace, name)
    if found is None:
        return None
    return {**{key: text.encode() for key, text in found.texts.items()}, **found.binaries}


def _chosen(kind: str, wanted: Mapping[str, Any], values: Mapping[str, bytes] | None) -> dict[str, File]:
    optional = bool(wanted.get("optional"))
    if values is None:
        if optional:
            return {}
        raise LaunchError("", f'{kind.lower()} "{wanted.get("name", "")}" not found')
    items = wanted.get("items")
    if not items:
        return {key: File(value) for key, value in values.items()}
    missing = [one["key"] for one in items if one["key"] not in values]
    if missing and not optional:
        raise LaunchError("", f"references non-existent {kind.lower()} key: {missing[0]}")
    return {one["path"]: File(values[one["key"]], one.get("mode")) for one in items if one["key"] in values}


def _named(kind: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """A volume's own source in the form of a projected one; only the name of a Secret differs."""
    return {**wanted, "name": wanted.get("secretName", "")} if kind == "secret" else wanted


def _shown(pod: Object, item: Mapping[str, Any], settings: Settings) -> str:
    if wanted := item.get("fieldRef"):
        return container_config.field(pod, wanted.get("fieldPath", ""), settings)
    return container_config.resource_field(pod, item.get("resourceFieldRef") or {}, None, settings)


def _check(name: str) -> None:
    parts = Path(name).parts
    if not parts or ".." in parts or name.startswith(("/", "..")):
        raise LaunchError("CreateContainerConfigError", f"the path {name} leaves its volume")


def _read(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def _link(folder: Path, names: set[str]) -> None:
    """A symlink for each name, and none for others."""
    for one in folder.iterdir():
        if not one.name.startswith("..") and one.name not in names:
            one.unlink()
    for name in names:
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(f"{_DATA}/{name}")


def _give(folder: Path, data: Path, group: int) -> None:
    if os.geteuid() != 0:
        return
    for path in (folder, data, *data.rglob("*")):
        os.chown(path, -1, group)
        path.chmod(path.stat().st_mode | (_GROUP_FOLDER if path.is_dir() else _GROUP_FILE))
