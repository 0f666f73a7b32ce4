"""Where a continuous backup is kept: the interface of folders and buckets.

Files in every place have the same formats (`archive`, `segments`). All methods block; an async caller uses threads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from rota.kit import logs
from rota.store import errors, roles
from rota.store.shipping.catalog import Catalog
from rota.store.store_interface import Batch, Store

log = logs.get(__name__)


class ClaimLost(errors.StoreError):
    """Another process writes to the place now."""


class PlaceRefused(errors.StoreError):
    """The place refuses a write now. It may take it later: credentials are renewed, and policies are corrected."""


class LogWriter(Protocol):
    """Writes the next part of the log."""

    @property
    def size(self) -> int:
        """The size of the confirmed part in bytes."""
        ...

    def append(self, batch: Batch, taken_at: float) -> None:
        """Write a batch; it is durable when this returns. Raises OSError or PlaceRefused if it is not."""
        ...

    def complete(self) -> None:
        """End this part."""
        ...


class Place(Protocol):
    """Keeps base backups and the log since them. Raises OSError or PlaceRefused for failures that may pass."""

    @property
    def name(self) -> str:
        """The place as its user wrote it."""
        ...

    @property
    def key(self) -> bytes | None:
        """The key that its files are encrypted with."""
        ...

    @property
    def pause_s(self) -> float:
        """How long to gather changes before the next write; 0 where a write costs little."""
        ...

    @property
    def part_bytes(self) -> int:
        """The most bytes of one part of the log."""
        ...

    def claim(self) -> AbstractContextManager[None]:
        """Make the place ready for writing and keep other writers out."""
        ...

    def owner(self) -> str:
        """The identity of the store that the place belongs to; empty if it belongs to none yet."""
        ...

    def belong_to(self, identity: str) -> None:
        """Make the place that of a store."""
        ...

    def catalog(self) -> Catalog:
        """What the place holds."""
        ...

    def local(self, path: Path) -> Path:
        """A file of the catalog as a file of this machine."""
        ...

    def forget(self, path: Path) -> None:
        """Free what `local` took on this machine."""
        ...

    def parts(self, after: int) -> list[tuple[int, Path]]:
        """The files of the log that can hold changes after a revision, and after which revision each begins."""
        ...

    def prefetch(self, paths: Iterable[Path]) -> None:
        """Prepare several files for `local`."""
        ...

    def begin(self, after: int) -> LogWriter:
        """Begin a part of the log that continues after a revision."""
        ...

    def draft(self) -> Path:
        """Where a base backup is written before `keep_base`."""
        ...

    def keep_base(self, draft: Path) -> None:
        """Give a complete base backup its name; it is durable when this returns."""
        ...

    def remove(self, path: Path) -> None:
        """Delete a file of the catalog."""
        ...

    def probe(self) -> None:
        """Raise OSError or PlaceRefused if nothing can be written."""
        ...


@asynccontextmanager
async def claimed(place: Place, store: Store) -> AsyncIterator[None]:
    """Claim a place for a store; the event loop runs on while a bucket answers.

    StoreError if the place belongs to another store: the backups of two clusters would be mixed.
    """
    identity = (await roles.read(store)).role.identity
    # before the claim too: in a bucket a later claim ends the backup that has an earlier one
    await to_its_end(_check_owner, place, identity)
    with ExitStack() as held:
        await to_its_end(lambda: held.enter_context(place.claim()))
        await to_its_end(_take, place, identity)
        yield


def _check_owner(place: Place, identity: str) -> None:
    if place.owner() not in {"", identity}:
        raise errors.StoreError(f"{place.name} has the backups of another store", "name an empty place")


def _take(place: Place, identity: str) -> None:
    _check_owner(place, identity)
    if identity and not place.owner():
        place.belong_to(identity)


async def to_its_end(call: Callable[..., None], *arguments: object) -> None:
    """Write in a thread. A cancellation waits for its end: a file has one writer at a time."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if (problem := running.exception()) is not None:
            log.warning("a write to the backup was not completed", problem=str(problem))
        raise
