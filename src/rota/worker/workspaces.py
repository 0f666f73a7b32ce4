"""Shared folders of pipeline runs on this node: created private, and removed after their run is gone.

A folder belongs to the worker, and only its user can enter it; the shared folder is inside, and pods have it mounted. A
record in the worker's own folder has the run of each folder, for the next worker. A folder that no pod here uses is
checked after a while: the API server shows a node the runs whose folder is on it, so a run that it does not show is
gone, or continues elsewhere, and the folder is removed. If the API server cannot be asked, the folder stays.
"""

import contextlib
import os
import shutil
import stat
from asyncio import to_thread
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from rota.api import errors, meta
from rota.api.pipelines import object_names
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.worker.volumes import VolumeError

log = logs.get(__name__)

RUNS: Final = ("rota.dev", "v1alpha1", "pipelineruns")
#: How often unused folders are looked for.
_LOOK_S: Final = 30.0
#: How long a folder must be unused. A run that has just begun does not name its folder yet.
_GRACE_S: Final = 60.0
#: The prefix of a record that is being written.
_DRAFT: Final = "."


class _Record(msgspec.Struct, frozen=True):
    """The run of a folder."""

    namespace: str
    run: str


class Workspaces:
    """The shared folders of one worker."""

    def __init__(self, client: Client, folder: Path, *, pods: Callable[[], Iterable[Object]], clock: Clock) -> None:
        """`pods` returns those of this node, ended or not; `folder` has the records."""
        self._client: Final = client
        self._folder: Final = folder
        self._pods: Final = pods
        self._clock: Final = clock
        #: Since when a folder is unused, by its run's uid.
        self._unused_since: Final[dict[str, float]] = {}

    def prepare(self, pod: Object) -> None:
        """Create the shared folder of a pod's run, if it has one; VolumeError if that is not safe."""
        name = meta.annotations(pod).get(object_names.WORKSPACE_ANNOTATION)
        for uid in _wanted(pod):
            if name:
                record = self._folder / uid
                if not record.exists():
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    # recorded first, and completely: a folder without a record would stay for ever
                    draft = self._folder / f"{_DRAFT}{uid}"
                    draft.write_bytes(msgspec.json.encode(_Record(meta.namespace(pod), name)))
                    draft.replace(record)
                _make(Path(object_names.workspace(uid)))

    async def run(self) -> None:
        """Remove unused folders until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_S)
            await self.collect()

    async def collect(self) -> None:
        """Remove the folders whose runs are gone."""
        used = {uid for pod in self._pods() for uid in _wanted(pod)}
        known = dict(self._records())
        now = self._clock.monotonic()
        for uid in [*self._unused_since]:
            if uid in used or uid not in known:
                del self._unused_since[uid]
        for uid, record in known.items():
            if uid in used or now - self._unused_since.setdefault(uid, now) < _GRACE_S:
                continue
            if not await self._is_there(uid, record):
                await self._remove(uid, record)

    def _records(self) -> Iterator[tuple[str, _Record]]:
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith(_DRAFT):
                    continue
                try:
                    yield path.name, msgspec.json.decode(path.read_bytes(), type=_Record)
                except (OSError, msgspec.MsgspecError) as problem:
                    log.warning("a record of a shared folder cannot be read", path=str(path), error=problem)

    async def _is_there(self, uid: str, record: _Record) -> bool:
        """Whether the run exists and has its folder on this node; True if that is unknown."""
        try:
            found = await self._client.get(RUNS, record.run, namespace=record.namespace)
        except (errors.NotFound, errors.Forbidden):
            return False
        except (errors.ApiError, TransportError) as problem:
            log.info("a run cannot be asked for", run=record.run, error=problem)
            return True
        return meta.uid(found) == uid

    async def _remove(self, uid: str, record: _Record) -> None:
        outer = Path(object_names.workspace(uid)).parent
        try:
            await to_thread(remove, outer)
        except OSError as problem:
            log.warning("a shared folder cannot be removed", path=str(outer), error=problem)
            return
        (self._folder / uid).unlink(missing_ok=True)
        log.info("shared folder removed", path=str(outer), run=f"{record.namespace}/{record.run}")


def _wanted(pod: Object) -> Iterator[str]:
    """The uids of the runs whose folders a pod has mounted."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        uid = object_names.workspace_of((volume.get("hostPath") or {}).get("path") or "")
        if uid:
            yield uid


def _make(shared: Path) -> None:
    outer = shared.parent
    with contextlib.suppress(FileExistsError):
        outer.mkdir(mode=0o700)
    if not _is_ours(outer):
        raise VolumeError(f"the shared folder {outer} is there already and is not the worker's alone")
    if not shared.exists():
        shared.mkdir()
        # for steps of any user: other users cannot get this far
        shared.chmod(0o777)


def _is_ours(path: Path) -> bool:
    """Whether it is a folder, not a link, that only this worker's user may enter."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def remove(outer: Path) -> None:
    """Remove a shared folder with its content; links are removed, not followed. OSError if that fails."""
    if not os.path.lexists(outer):
        return
    if not _is_ours(outer):
        raise PermissionError(f"{outer} is not the worker's alone")
    try:
        shutil.rmtree(outer)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        # folders that a step, run by the same user, has closed to itself
        for _, names, _, at in os.fwalk(outer):
            for name in names:
                if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=at)
        shutil.rmtree(outer)
