"""Images as files: the OCI image layout, as a folder or an archive, and the archives of `docker save`.

An image is a list of layers, archives that are unpacked above each other. They come from strangers, and links in them
may point anywhere, so a program of its own does that with the new root file system as its root (`unpacking.py`). The
result is kept under the digest of the image's configuration, and appears there in one step.
"""

import contextlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

Settings: TypeAlias = Mapping[str, Any]

_PROGRAM: Final = "rota.worker.runtimes.container.unpacking"
_TITLE: Final = "org.opencontainers.image.ref.name"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageError(Exception):
    """A file is no image that can be used here."""


class Contents(NamedTuple):
    """What an image consists of: its configuration and its layers, by their names in the archive."""

    digest: str
    settings: Settings
    layers: list[str]


class Archive:
    """A folder or an archive with an image in it."""

    def __init__(self, path: Path) -> None:
        self._folder: Final = path if path.is_dir() else None
        try:
            self._archive = None if path.is_dir() else tarfile.open(path)  # noqa: SIM115 - closed by `close`
        except (OSError, tarfile.TarError) as problem:
            raise ImageError(f"{path} cannot be read: {problem}") from problem

    def close(self) -> None:
        """Read no more."""
        if self._archive is not None:
            self._archive.close()

    def open(self, name: str) -> IO[bytes]:
        """A file in it."""
        try:
            if self._folder is not None:
                return (self._folder / name).open("rb")
            assert self._archive is not None
            found = self._archive.extractfile(name)
        except (OSError, KeyError, tarfile.TarError) as problem:
            raise ImageError(f"{name} is missing in it") from problem
        if found is None:
            raise ImageError(f"{name} is no file in it")
        return found

    def document(self, name: str) -> Any:
        """A JSON document in it."""
        with self.open(name) as file:
            try:
                return json.load(file)
            except ValueError as problem:
                raise ImageError(f"{name} in it is no JSON") from problem

    def has(self, name: str) -> bool:
        """Whether a file is in it."""
        try:
            self.open(name).close()
        except ImageError:
            return False
        return True


def unpacked(path: Path, tag: str, folder: Path) -> tuple[Path, Settings]:
    """The root file system of an image, unpacked below `folder` if it is not there already, and its settings."""
    with _opened(path) as archive:
        contents = contents_of(archive, tag)
        target = folder / contents.digest
        if not target.is_dir():
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".draft-", dir=folder, ignore_cleanup_errors=True) as draft:
                root = Path(draft, "root")
                root.mkdir(mode=0o755)
                for layer in contents.layers:
                    with archive.open(layer) as file:
                        _unpack(file, layer, root)
                # Somebody else may have been quicker.
                with contextlib.suppress(OSError):
                    root.rename(target)
        return target, contents.settings


def contents_of(archive: Archive, tag: str) -> Contents:
    """What an image consists of; ImageError if there is none of that tag."""
    if archive.has("index.json"):
        manifest = _manifest(archive, archive.document("index.json"), tag)
        config = _blob(manifest["config"]["digest"])
        layers = [_blob(one["digest"]) for one in manifest["layers"]]
    elif archive.has("manifest.json"):
        images = archive.document("manifest.json")
        chosen = [one for one in images if not tag or tag in (one.get("RepoTags") or ())]
        if not chosen:
            raise ImageError(f"there is no {tag} in it")
        config, layers = chosen[0]["Config"], list(chosen[0]["Layers"])
    else:
        raise ImageError("it has neither index.json nor manifest.json, so it is no image")
    document = archive.document(config)
    digest = config.rpartition("/")[2].removesuffix(".json")
    return Contents(digest, document.get("config") or {}, layers)


def _manifest(archive: Archive, index: Mapping[str, Any], tag: str) -> Mapping[str, Any]:
    """The manifest for this machine that an index leads to, through other indexes if there are some."""
    listed = index.get("manifests") or []
    if tag:
        listed = [one for one in listed if (one.get("annotations") or {}).get(_TITLE) == tag]
    own = _ARCHITECTURES.get(platform.machine(), platform.machine())
    fitting = [one for one in listed if (one.get("platform") or {}).get("architecture", own) == own]
    if not fitting:
        raise ImageError(f"there is no {tag or 'image'} for {own} in it")
    document: Mapping[str, Any] = archive.document(_blob(fitting[0]["digest"]))
    return _manifest(archive, document, "") if "manifests" in document else document


def _blob(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if not value.isalnum() or not algorithm.isalnum():
        raise ImageError(f"{digest} is no digest")
    return f"blobs/{algorithm}/{value}"


def _unpack(layer: IO[bytes], name: str, target: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, str(target)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            shutil.copyfileobj(layer, process.stdin)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        said = process.stderr.read().decode("utf-8", "replace").strip()
    if process.returncode:
        raise ImageError(f"layer {name} cannot be unpacked: {said.splitlines()[-1] if said else process.returncode}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Archive]:
    if not path.exists():
        raise ImageError(f"there is no {path} on this node")
    archive = Archive(path)
    try:
        yield archive
    except (KeyError, TypeError) as problem:
        raise ImageError(f"it is damaged: {problem}") from problem
    finally:
        archive.close()
