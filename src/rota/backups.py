"""Backups of a store for the command line: single files, and places that are written on a schedule or continuously."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from rota.api import times
from rota.kit import diagnostics, errors, system
from rota.kit.metrics import Metrics
from rota.store import archive, roles, sealing, store_factory
from rota.store.errors import Corrupt, StoreError
from rota.store.shipping import bases, places, recovery, s3_client, segments
from rota.store.shipping.bases import Schedule, ScheduledBackups
from rota.store.shipping.bucket import BucketPlace
from rota.store.shipping.folder import Folder
from rota.store.shipping.follower import Confirmed, Follower, Settings
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.shipping.places import Place
from rota.store.store_interface import Entry, Store

#: From the begin of a second to its last microsecond.
_REST_OF_SECOND_S: Final = 0.999999
_PAGE: Final = 500


def is_place(target: str) -> bool:
    """Whether a user means a folder or a bucket, and not a single file."""
    return target.startswith(s3_client.SCHEME) or Path(target).is_dir()


async def backup(
    url: str, path: Path, *, progress: Callable[[int], None], key_file: Path | None = None
) -> dict[str, int]:
    """Write the store at `url` to a file; returns the number of entries, their revision and the file's size.

    With a key file, the backup is encrypted.
    """
    key = _key(key_file)
    async with opened(url, create=False) as store:
        return _as_dict(await archive.backup(store, path, time=system.SystemClock(), progress=progress, key=key))


async def backup_to_place(url: str, target: str, *, key_file: Path | None = None) -> dict[str, int]:
    """Write one complete backup to a place."""
    with place_of(target, key_file) as place:
        async with opened(url, create=False) as store, places.claimed(place, store):
            summary = await bases.take(store, place, time=system.SystemClock(), metrics=ShippingMetrics())
    return _as_dict(summary)


async def restore(path: Path, url: str, *, key_file: Path | None = None) -> dict[str, int]:
    """Fill the store at `url` from a file; returns the number of entries, the store's new revision and the file's
    size."""
    key = _key(key_file)
    # Checked before the store is opened, since opening may write to it.
    await asyncio.to_thread(archive.verify, path, key=key)
    async with opened(url) as store:
        summary = _as_dict(await archive.restore(store, path, key=key))
        return {**summary, "revision": await roles.revive(store) or summary["revision"]}


async def follow(
    url: str,
    target: str,
    *,
    base_every_s: float,
    keep_s: float | None,
    on_confirmed: Callable[[int, float], None],
    key_file: Path | None = None,
    http: diagnostics.Address | None = None,
) -> None:
    """Ship the log of the store at `url` to a place until a signal ends it.

    `on_confirmed` gets each revision, and when it was taken, as soon as the place holds it durably.
    """

    def report(confirmed: Confirmed) -> None:
        on_confirmed(confirmed.revision, confirmed.at)

    metrics = Metrics("backup", process=True)
    with place_of(target, key_file) as place:
        async with opened(url, create=False) as store:
            follower = Follower(
                store,
                place,
                time=system.SystemClock(),
                settings=Settings(base_every_s=base_every_s, keep_s=keep_s),
                on_confirmed=report,
                metrics=ShippingMetrics(metrics),
            )
            await run_served(follower.run(), metrics, http)


async def schedule(
    url: str,
    target: str,
    *,
    every_s: float,
    keep_count: int | None,
    keep_s: float | None,
    key_file: Path | None = None,
    http: diagnostics.Address | None = None,
) -> None:
    """Take complete backups of the store at `url` until a signal ends it."""
    metrics = Metrics("backup", process=True)
    wanted = Schedule(every_s=every_s, keep_count=keep_count, keep_s=keep_s)
    with place_of(target, key_file) as place:
        async with opened(url, create=False) as store:
            backups = ScheduledBackups(
                store, place, wanted, time=system.SystemClock(), metrics=ShippingMetrics(metrics)
            )
            await run_served(backups.run(), metrics, http)


async def run_served(work: Coroutine[Any, Any, None], metrics: Metrics, http: diagnostics.Address | None) -> None:
    """Run until a signal, with the metrics on a port if one is wanted."""
    running = asyncio.create_task(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if http is not None:
                await stack.enter_async_context(diagnostics.serving(diagnostics.health(metrics), http))
            with contextlib.suppress(asyncio.CancelledError):
                await running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def restore_moment(
    target: str, url: str, *, revision: int | None, at: float | None, key_file: Path | None = None
) -> dict[str, Any]:
    """Fill the store at `url` with the state at a moment of a place."""
    with place_of(target, key_file) as place:
        found = await asyncio.to_thread(place.catalog)
        wanted = await asyncio.to_thread(recovery.moment, place, found, revision=revision, at=at)
        # Verified before the store is opened, since opening may write to it.
        entries = await asyncio.to_thread(recovery.state, place, found, wanted)
    async with opened(url) as store:
        loaded = (await store.load(entries, revision=found.shipped)).revision
        now = await roles.revive(store) or loaded
    return {"entries": len(entries), "restored_revision": wanted.revision, "revision": now}


async def verify(target: str, *, key_file: Path | None = None) -> dict[str, int]:
    """Restore a backup into a scratch store, and compare every entry; in a place, also read every file."""
    if not is_place(target):
        path, key = Path(target), _key(key_file)
        summary = await asyncio.to_thread(archive.verify, path, key=key)
        count = await _compare_restored(lambda: archive.entries(path, key=key), summary.revision, target)
        return {"files": 1, "entries": count, "revision": summary.revision}
    with place_of(target, key_file) as place:
        found = await asyncio.to_thread(place.catalog)
        wanted = await asyncio.to_thread(recovery.moment, place, found)
        files = await asyncio.to_thread(_read_all, place)
        entries = await asyncio.to_thread(recovery.state, place, found, wanted)
        count = await _compare_restored(lambda: entries, found.shipped, target)
    return {"files": files, "entries": count, "revision": wanted.revision}


def _read_all(place: Place) -> int:
    """Read every file; returns their number."""
    found = place.catalog()
    place.prefetch([*(base.path for base in found.bases), *(segment.path for segment in found.segments)])
    for base in found.bases:
        archive.verify(place.local(base.path), key=place.key)
    for segment in found.segments:
        for _ in segments.read(place.local(segment.path), key=place.key):
            pass
    return len(found.bases) + len(found.segments)


async def _compare_restored(wanted: Callable[[], Iterable[Entry]], revision: int, target: str) -> int:
    """Load entries into a scratch store, read them back, and compare; returns their number."""
    with tempfile.TemporaryDirectory(prefix="rota-verify-") as folder:
        async with opened(f"sqlite:///{folder}/scratch.db") as store:
            loaded = await store.load(wanted(), revision=revision)
            if loaded.revision <= revision:
                raise Corrupt(f"{target} restores to a revision that was used before", "use another backup")
            expected, count, after = iter(wanted()), 0, ""
            while True:
                page = await store.list("", limit=_PAGE, after=after)
                for entry in page.entries:
                    original = next(expected, None)
                    if original is None or (entry.key, entry.value) != (original.key, original.value):
                        raise Corrupt(f"{target} restores another {entry.key} than it holds", "use another backup")
                count += len(page.entries)
                if not page.remaining:
                    break
                after = page.entries[-1].key
            if next(expected, None) is not None:
                raise Corrupt(f"{target} holds more entries than it restores", "use another backup")
    return count


def windows(target: str, *, key_file: Path | None = None) -> list[dict[str, Any]]:
    """The parts of history that a place can restore."""
    with place_of(target, key_file) as place:
        found = place.catalog().windows()
    return [
        {
            "first_revision": window.first_revision,
            "last_revision": window.last_revision,
            "first_time": times.format_micro_time(window.first_at),
            "last_time": times.format_micro_time(window.last_at),
        }
        for window in found
    ]


def moment_time(text: str) -> float:
    """Seconds since 1970 of a time that a user wrote.

    A time without a fraction, as `date` prints it, means the end of its second: what happened in it is included.
    """
    try:
        return times.parse(text) + (0.0 if "." in text else _REST_OF_SECOND_S)
    except times.TimeError as problem:
        raise errors.UserError(
            f"{text!r} is no time", "write it as 2026-05-01T12:30:00Z or with an offset"
        ) from problem


def _key(key_file: Path | None) -> bytes | None:
    return None if key_file is None else sealing.read_key(key_file)


@contextlib.contextmanager
def place_of(target: str, key_file: Path | None) -> Iterator[Place]:
    """The folder or the bucket that a user named; its failures become errors for the user."""
    key = _key(key_file)
    if not target.startswith(s3_client.SCHEME):
        yield Folder(Path(target), key=key)
        return
    time = system.SystemClock()
    bucket, prefix = s3_client.parse(target, os.environ)
    with tempfile.TemporaryDirectory(prefix="rota-backup-") as scratch:
        client = s3_client.S3Client(bucket, time)
        try:
            yield BucketPlace(client, prefix, name=target, scratch=Path(scratch), time=time, key=key)
        except OSError as problem:
            raise StoreError(f"cannot use {target}: {problem}", "check AWS_ENDPOINT_URL and the server") from problem


@contextlib.asynccontextmanager
async def opened(url: str, *, create: bool = True) -> AsyncIterator[Store]:
    """The store at a URL; without `create`, a missing one is an error."""
    store = await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), create=create)
    try:
        yield store
    finally:
        await store.close()


def _as_dict(summary: archive.Summary) -> dict[str, int]:
    return {"entries": summary.entries, "revision": summary.revision, "size_bytes": summary.size_bytes}
