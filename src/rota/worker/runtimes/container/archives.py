"""Images as files: the OCI image layout, as a folder or an archive, and the archives of `docker save`.

An image is a list of layers, archives that are unpacked above each other. They are untrusted, and links in them may
point anywhere, so a separate program unpacks them with the new root file system as its root (`layer_unpacker.py`). The
result is stored under the image's digest, and appears there atomically, if all digests were correct.
"""

import bz2
import contextlib
import hashlib
import json
import lzma
import platform
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

Settings: TypeAlias = Mapping[str, Any]

_PROGRAM: Final = "rota.worker.runtimes.container.layer_unpacker"
_TITLE: Final = "org.opencontainers.image.ref.name"
_PIECE: Final = 1024 * 1024
#: By the magic number of compressed files.
_DECOMPRESSORS: Final[Sequence[tuple[bytes, Callable[[], Any]]]] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ", lzma.LZMADecompressor),
)
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageError(Exception):
    """A file is not an image that can be used here."""


class Layer(NamedTuple):
    """One layer: its name in the archive, and the digest of its bytes, compressed or not."""

    name: str
    digest: str
    is_unpacked: bool


class Contents(NamedTuple):
    """The content of an image: its digest, its configuration, and its layers."""

    digest: str
    settings: Settings
    layers: list[Layer]


class Archive:
    """A folder or an archive that contains an image."""

    def __init__(self, path: Path) -> None:
        self._folder: Final = path if path.is_dir() else None
        try:
            self._archive = None if path.is_dir() else tarfile.open(path)  # noqa: SIM115 - closed by `close`
        except (OSError, tarfile.TarError) as problem:
            raise ImageError(f"{path} cannot be read: {problem}") from problem

    def close(self) -> None:
        """Close the archive."""
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
    """The root file system of an image, unpacked below `folder` if it is not there already, and its configuration."""
    with _opened(path) as archive:
        contents = contents_of(archive, tag)
        target = folder / contents.digest
        if not target.is_dir():
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".draft-", dir=folder, ignore_cleanup_errors=True) as draft:
                root = Path(draft, "root")
                root.mkdir(mode=0o755)
                for layer in contents.layers:
                    with archive.open(layer.name) as file:
                        _unpack(file, layer, root)
                # Another process may have been faster.
                with contextlib.suppress(OSError):
                    root.rename(target)
        return target, contents.settings


def contents_of(archive: Archive, tag: str) -> Contents:
    """The content of an image; ImageError if there is none with that tag."""
    if archive.has("index.json"):
        digest, manifest = _manifest(archive, archive.document("index.json"), tag)
        document = _verified(archive, manifest["config"]["digest"])
        layers = [Layer(_blob(one["digest"]), one["digest"], False) for one in manifest["layers"]]
    elif archive.has("manifest.json"):
        images = archive.document("manifest.json")
        chosen = [one for one in images if not tag or tag in (one.get("RepoTags") or ())]
        if not chosen:
            raise ImageError(f"there is no {tag} in it")
        with archive.open(chosen[0]["Config"]) as file:
            content = file.read()
        digest, document = hashlib.sha256(content).hexdigest(), json.loads(content)
        # The digest of the configuration covers everything, since it contains the digests of the layers.
        hashes = (document.get("rootfs") or {}).get("diff_ids") or []
        if len(hashes) != len(chosen[0]["Layers"]):
            raise ImageError("its configuration does not name its layers")
        layers = [Layer(name, one, True) for name, one in zip(chosen[0]["Layers"], hashes, strict=True)]
    else:
        raise ImageError("it has neither index.json nor manifest.json, so it is no image")
    return Contents(digest, document.get("config") or {}, layers)


def _manifest(archive: Archive, index: Mapping[str, Any], tag: str) -> tuple[str, Mapping[str, Any]]:
    """The manifest for this machine's platform, through nested indexes if there are some, and its digest."""
    listed = index.get("manifests") or []
    if tag:
        listed = [one for one in listed if (one.get("annotations") or {}).get(_TITLE) == tag]
    own = _ARCHITECTURES.get(platform.machine(), platform.machine())
    fitting = [one for one in listed if (one.get("platform") or {}).get("architecture", own) == own]
    if not fitting:
        raise ImageError(f"there is no {tag or 'image'} for {own} in it")
    document = _verified(archive, fitting[0]["digest"])
    if "manifests" in document:
        return _manifest(archive, document, "")
    return fitting[0]["digest"].partition(":")[2], document


def _verified(archive: Archive, digest: str) -> Mapping[str, Any]:
    """A JSON document whose digest was verified."""
    with archive.open(_blob(digest)) as file:
        content = file.read()
    _check(digest, hashlib.sha256(content), digest)
    found: Mapping[str, Any] = json.loads(content)
    return found


def _check(wanted: str, found: "hashlib._Hash", name: str) -> None:
    if wanted != f"sha256:{found.hexdigest()}":
        raise ImageError(f"{name} in it is not what its hash says: it is damaged, or was changed")


def _blob(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if not value.isalnum() or not algorithm.isalnum():
        raise ImageError(f"{digest} is no digest")
    return f"blobs/{algorithm}/{value}"


class _Unpacked:
    """The digest of the decompressed bytes."""

    def __init__(self) -> None:
        self.hash: Final = hashlib.sha256()
        self._decompressor: Any = None
        self._begun = False

    def update(self, piece: bytes) -> None:
        if not self._begun:
            self._begun = True
            made = next((make for mark, make in _DECOMPRESSORS if piece.startswith(mark)), None)
            self._decompressor = None if made is None else made()
        self.hash.update(piece if self._decompressor is None else self._decompressor.decompress(piece))


def _unpack(layer: IO[bytes], wanted: Layer, target: Path) -> None:
    """Unpack a layer; ImageError if that fails or the digest does not match."""
    name, stored, unpacked_ = wanted.name, hashlib.sha256(), _Unpacked()
    with subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, str(target)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        while piece := layer.read(_PIECE):
            stored.update(piece)
            if wanted.is_unpacked:
                unpacked_.update(piece)
            # It may have seen the end of the archive before the end of the file.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(piece)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        said = process.stderr.read().decode("utf-8", "replace").strip()
    if process.returncode:
        raise ImageError(f"layer {name} cannot be unpacked: {said.splitlines()[-1] if said else process.returncode}")
    _check(wanted.digest, unpacked_.hash if wanted.is_unpacked else stored, f"layer {name}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Archive]:
    if not path.exists():
        raise ImageError(f"there is no {path} on this node")
    archive = Archive(path)
    try:
        yield archive
    except (KeyError, TypeError, ValueError, zlib.error, OSError, lzma.LZMAError) as problem:
        raise ImageError(f"it is damaged: {problem}") from problem
    finally:
        archive.close()
