"""The offline bundle of a release: one file with everything that a machine without a network needs to install Rota.

A bundle is an uncompressed tar file with wheels (Rota, its dependencies, pip), `requirements.txt` with the hash of
each, and `manifest.json` with the levels of the release and the hash of every file. A release is named by its version
and the hash of the manifest, so two builds of one version are two releases.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from rota.kit import errors
from rota.kit.levels import Levels

_MANIFEST: Final = "manifest.json"
_REQUIREMENTS: Final = "requirements.txt"
#: Characters of the manifest's hash in the name of a release; `on_host` checks them.
_DIGEST: Final = 12


def make(target: Path, *, source: Path, platform: tuple[str, ...] = ()) -> str:
    """Write the bundle of a source tree with its locked dependencies; returns the name of the release.

    `platform` are further options of `pip download`, for machines of another kind than this one.
    """
    lock = source / "requirements" / "runtime.lock"
    if not lock.exists() or not (source / "pyproject.toml").exists():
        raise errors.UserError(f"{source} is no source tree of Rota", "name one with --source")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _pip("wheel", "--no-deps", "--wheel-dir", place, str(source))
        own = next(folder.glob("rota-*.whl"))
        wheels = ("download", "--only-binary", ":all:", "--dest", place)
        _pip(*wheels, "--require-hashes", "--requirement", str(lock), *platform)
        _pip(*wheels, "--no-deps", "pip")
        pip = next(folder.glob("pip-*.whl"))
        version = own.name.split("-")[1]
        line = f"rota=={version} --hash=sha256:{_digest(own)}\n"
        (folder / _REQUIREMENTS).write_text(f"{lock.read_text().rstrip()}\n{line}")
        return _pack(folder, target, version=version, pip=pip.name, levels=_declared(own))


def release(path: Path) -> str:
    """The name of the release in a bundle, by its manifest; the machines verify every file."""
    described, manifest = _manifest(path)
    return _name(described["version"], manifest)


def levels(path: Path) -> Levels:
    """The levels of the release in a bundle; those of a bundle without the field are the first."""
    return Levels.read(str(_manifest(path)[0].get("levels") or ""))


def _manifest(path: Path) -> tuple[dict[str, Any], bytes]:
    """The manifest of a bundle, and its text."""
    try:
        with tarfile.open(path, "r:") as files:
            entry = files.extractfile(_MANIFEST)
            assert entry is not None
            text = entry.read()
        described: dict[str, Any] = json.loads(text)
        described["version"]
    except (OSError, tarfile.TarError, KeyError, ValueError, TypeError) as problem:
        raise errors.UserError(f"{path} is no bundle: {problem}", "make one with 'rota cluster bundle'") from None
    return described, text


def _pack(folder: Path, target: Path, *, version: str, pip: str, levels: str = "") -> str:
    files = sorted(folder.iterdir())
    described = {
        "version": version,
        "levels": levels,
        "pip": pip,
        "files": {one.name: _digest(one) for one in files},
    }
    manifest = json.dumps(described, indent=1, sort_keys=True).encode()
    partial = target.with_name(f".{target.name}.partial")
    with tarfile.open(partial, "w") as packed:
        entry = tarfile.TarInfo(_MANIFEST)
        entry.size = len(manifest)
        packed.addfile(entry, io.BytesIO(manifest))
        for one in files:
            packed.add(one, one.name, filter=_plain)
    partial.replace(target)
    return _name(version, manifest)


def _declared(wheel: Path) -> str:
    """The levels that the release in a wheel declares; empty if it is of the time before levels."""
    ask = "import sys; sys.path.insert(0, sys.argv[1]); from rota.kit import levels; print(levels.OWN)"
    done = subprocess.run([sys.executable, "-c", ask, str(wheel)], capture_output=True, text=True, check=False)
    if done.returncode and "ImportError: cannot import name 'levels'" not in done.stderr:
        raise errors.UserError(f"the levels of {wheel.name} cannot be read: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the times and owners of this machine."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _name(version: str, manifest: bytes) -> str:
    return f"{version}-{hashlib.sha256(manifest).hexdigest()[:_DIGEST]}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise errors.UserError(f"pip {arguments[0]} fails: {said[-1] if said else done.returncode}")
