"""Finds images: a root file system on this machine, and the image's configuration.

An image is named in one of these ways:

- `/path` or `file:///path`: a folder that is a root file system, a folder in the OCI image layout, or an archive;
- `oci:/path[:tag]`, `oci-archive:/path[:tag]`, `docker-archive:/path[:name]`: the names of skopeo and podman;
- any other name: looked for in the worker's `images` folder (`images/team/app:1`, with or without `.tar`), then in
  podman's store, if podman is installed, which may pull it.

Root file systems of images are unpacked once and are read-only: each container has an upper layer of its own.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from rota.kit.clock import Clock
from rota.worker.runtimes.container import archives, image_gc
from rota.worker.runtimes.container.archives import ImageError, Settings
from rota.worker.runtimes.runtime_interface import LaunchError

_PULL: Final = "ErrImagePull"
_SCHEMES: Final = ("oci", "oci-archive", "docker-archive")
_DEFAULT_PREFIXES: Final = ("docker.io/library/", "docker.io/", "localhost/")
_NEVER: Final = "Never"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an image for its containers."""

    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()
    env: Mapping[str, str] = {}
    working_dir: str = ""
    user: str = ""
    #: The stop signal, if it is not SIGTERM.
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is available."""

    root: Path
    config: Config = Config()


class Store(Protocol):
    """A store of images by name, which may pull them: podman."""

    async def find(self, name: str, *, policy: str) -> tuple[Path, Settings] | None:
        """The root file system and settings of an image; None without a store. LaunchError if it cannot be pulled."""
        ...


class Images:
    """Finds images."""

    def __init__(self, *, folder: Path, unpacked: Path, store: Store, clock: Clock, anywhere: bool = False) -> None:
        """`folder` is where an operator puts images, `unpacked` where their root file systems are stored.

        With `anywhere` images may be anywhere on the machine, not only in that folder: they are read as root.
        """
        self._anywhere: Final = anywhere
        self._clock: Final = clock
        self._folder: Final = folder
        self._unpacked: Final = unpacked
        self._store: Final = store
        #: One image is unpacked at a time: two of the same would conflict.
        self._unpacking: Final = asyncio.Lock()

    async def find(self, reference: str, *, policy: str) -> Image:
        """The image of a reference; LaunchError with a remedy if there is none."""
        if not reference or reference.isspace():
            raise LaunchError("InvalidImageName", "the container names no image")
        scheme, _, rest = reference.partition(":")
        try:
            if scheme == "file":
                return await self._at(self._allowed(Path(rest.removeprefix("//")), reference), reference)
            if scheme in _SCHEMES and rest:
                path, tag = _split(rest)
                return await self._unpack(self._allowed(path, reference), tag)
            if reference.startswith("/"):
                return await self._at(self._allowed(Path(reference), reference), reference)
            for path in self._candidates(reference):
                if path.exists():
                    return await self._at(path, reference)
        except ImageError as problem:
            raise LaunchError(_PULL, f'image "{reference}": {problem}') from problem
        return await self._ask(reference, policy)

    async def collect(self, used: Iterable[Path]) -> list[str]:
        """Remove unpacked images that were not used for long; returns their names."""
        return await asyncio.to_thread(image_gc.collect, self._unpacked, used=list(used), now=self._clock.now())

    def _allowed(self, path: Path, reference: str) -> Path:
        """A path that a pod may name, with links resolved; LaunchError for any other."""
        found = _absolute(path, reference).resolve()
        if not self._anywhere and self._folder.resolve() not in found.parents:
            raise LaunchError(
                "InvalidImageName",
                f'image "{reference}" is not in {self._folder}, the folder for images, and is not read from elsewhere: '
                "put it there, or have an administrator start the worker with --allow-root",
            )
        return found

    async def _at(self, path: Path, reference: str) -> Image:
        kind = await asyncio.to_thread(_kind, path)
        if kind == "image":
            return await self._unpack(path, "")
        if kind != "folder":
            raise LaunchError(_PULL, f'image "{reference}": there is no {path} on this node')
        return Image(root=path)

    async def _unpack(self, path: Path, tag: str) -> Image:
        async with self._unpacking:
            root, settings = await asyncio.to_thread(archives.unpacked, path, tag, self._unpacked)
        image_gc.use(root, self._clock.now())
        return Image(root=root, config=parse_config(settings))

    async def _ask(self, reference: str, policy: str) -> Image:
        found = await self._store.find(reference, policy=policy)
        if found is not None:
            return Image(root=found[0], config=parse_config(found[1]))
        reason = "ErrImageNeverPull" if policy == _NEVER else _PULL
        raise LaunchError(
            reason,
            f'image "{reference}" is not on this node: nothing in {self._folder} has its name, and podman, which could '
            "fetch it, is not installed. Put a root file system or an image archive there, name one by its path, or "
            "install podman",
        )

    def _candidates(self, reference: str) -> Iterator[Path]:
        """Possible paths of an image of this name in the folder; never outside of it."""
        if ".." in reference.split("/"):
            return
        names = {reference, *(reference.removeprefix(one) for one in _DEFAULT_PREFIXES)}
        for name in sorted(names, key=len, reverse=True):
            shorter = [name.removesuffix(":latest")] if name.endswith(":latest") else [name]
            for one in (name, *shorter):
                yield self._folder / one
                yield self._folder / f"{one}.tar"


def parse_config(settings: Settings) -> Config:
    """The configuration of an image."""
    pairs = (one.partition("=") for one in settings.get("Env") or ())
    return Config(
        entrypoint=tuple(settings.get("Entrypoint") or ()),
        cmd=tuple(settings.get("Cmd") or ()),
        env={name: value for name, _, value in pairs},
        working_dir=settings.get("WorkingDir") or "",
        user=settings.get("User") or "",
        stop_signal=settings.get("StopSignal") or "",
    )


def _absolute(path: Path, reference: str) -> Path:
    if not path.is_absolute():
        raise LaunchError("InvalidImageName", f'image "{reference}": its path must begin with a slash')
    return path


def _kind(path: Path) -> str:
    if path.is_file() or (path / "oci-layout").is_file():
        return "image"
    return "folder" if path.is_dir() else "nothing"


def _split(rest: str) -> tuple[Path, str]:
    """`path[:tag]`; a path may contain colons itself if it exists."""
    if Path(rest).exists():
        return Path(rest), ""
    path, _, tag = rest.partition(":")
    return Path(path), tag
