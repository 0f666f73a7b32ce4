"""Backups: consistent during writes, complete or refused, from any backend to any other."""

import asyncio
import base64
import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.kit import system
from rota.store import archive, errors, sealing
from rota.store.store_interface import Committed, Put, Store, Transaction
from rota.testing.databases import BACKENDS, FreshDatabase, fresh_database
from rota.testing.store_contract import opened

CLOCK = system.SystemClock()


async def filled(store: Store, count: int) -> dict[str, bytes]:
    content = {f"/a/{number % 3}/{number}": b"value %d" % number for number in range(count)}
    for start in range(0, count, 100):
        puts = tuple(Put(key, value) for key, value in list(content.items())[start : start + 100])
        assert isinstance(await store.commit(Transaction(puts)), Committed)
    return content


async def content_of(store: Store) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in (await store.list("")).entries}


@pytest.fixture(params=BACKENDS)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FreshDatabase:
    if request.param == "sqlite":
        return FreshDatabase("sqlite", f"sqlite:///{tmp_path_factory.mktemp('target')}/restored.db")
    return fresh_database(request.param, request)


@pytest.mark.slow
async def test_a_backup_fills_any_other_backend(database: FreshDatabase, target: FreshDatabase, tmp_path: Path) -> None:
    if database.url == target.url:
        pytest.skip("a test has one database of this kind")
    path = tmp_path / "backup"
    async with opened(database.url) as store:
        content = await filled(store, 1203)
        summary = await archive.backup(store, path, time=CLOCK)
        assert (summary.entries, summary.size_bytes) == (1203, path.stat().st_size)
        old = (await store.revision_range()).revision
    async with opened(target.url) as store:
        summary = await archive.restore(store, path)
        assert summary.entries == 1203
        assert await content_of(store) == content
        assert (await store.revision_range()).revision > old
        with pytest.raises(errors.Expired):
            async with store.watch("", after=old):
                pass


@pytest.mark.slow
async def test_a_backup_is_one_revision_while_writes_go_on(database: FreshDatabase, tmp_path: Path) -> None:
    """Pairs are written together; a backup that split one would show it."""
    async with opened(database.url) as store:
        await filled(store, 1500)
        stop = asyncio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                value = b"%d" % number
                await store.commit(Transaction((Put("/a/0/first", value), Put("/z/last", value))))
                number += 1

        writing = asyncio.create_task(write())
        for round_ in range(3):
            path = tmp_path / f"backup {round_}"
            await archive.backup(store, path, time=CLOCK)
            async with opened("memory://") as copy:
                await archive.restore(copy, path)
                first, last = await copy.get("/a/0/first"), await copy.get("/z/last")
                assert (first and first.value) == (last and last.value)
        stop.set()
        await writing


@pytest.fixture
async def good(tmp_path: Path) -> Path:
    path = tmp_path / "good"
    async with opened("memory://") as store:
        await filled(store, 700)
        await archive.backup(store, path, time=CLOCK)
    return path


async def test_a_backup_is_for_its_owners_eyes_and_leaves_nothing_beside_it(good: Path) -> None:
    assert stat.S_IMODE(good.stat().st_mode) == 0o600
    assert list(good.parent.iterdir()) == [good]


async def test_a_backup_replaces_an_older_one_only_when_it_is_complete(good: Path) -> None:
    before = good.read_bytes()
    async with opened("memory://") as store:
        await filled(store, 10)

        def fail(entries: int) -> None:
            raise RuntimeError("pulled the plug")

        with pytest.raises(RuntimeError, match="pulled the plug"):
            await archive.backup(store, good, time=CLOCK, progress=fail)
    assert good.read_bytes() == before
    assert list(good.parent.iterdir()) == [good]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_truncated_or_altered_file_is_refused_whole(good: Path, data: st.DataObject) -> None:
    original = good.read_bytes()
    bad = good.with_name("bad")
    if data.draw(st.booleans(), label="truncate"):
        bad.write_bytes(original[: data.draw(st.integers(0, len(original) - 1))])
    else:
        at = data.draw(st.integers(0, len(original) - 1))
        bad.write_bytes(original[:at] + bytes([original[at] ^ data.draw(st.integers(1, 255))]) + original[at + 1 :])
    with pytest.raises(errors.Corrupt):
        archive.verify(bad)


def signed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        (1 << 62).to_bytes(8, "big"),
        (5).to_bytes(8, "big") + b"xxxxx",
        (500).to_bytes(8, "big") + b"short",
    ],
)
def test_a_rightly_signed_file_of_nonsense_is_refused_too(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "nonsense"
    path.write_bytes(signed(b"rota-backup\n" + body))
    with pytest.raises(errors.Corrupt):
        archive.verify(path)


async def test_a_bad_backup_leaves_the_target_untouched(good: Path) -> None:
    good.write_bytes(good.read_bytes()[:-1])
    async with opened("memory://") as store:
        before = await store.revision_range()
        with pytest.raises(errors.Corrupt):
            await archive.restore(store, good)
        assert await store.revision_range() == before


async def test_a_backup_of_a_newer_version_says_so(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FORMAT", 0)
    with pytest.raises(errors.NewerFormat, match="newer Rota"):
        archive.verify(good)


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    async with opened("memory://") as store:
        with pytest.raises(errors.StoreError, match="No such file"):
            await archive.backup(store, tmp_path / "nowhere" / "file", time=CLOCK)


async def test_large_objects_are_spread_over_frames_that_a_restore_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_FRAME_BYTES", 10_000)
    monkeypatch.setattr(archive, "_MOST_FRAME_BYTES", 25_000)
    path = tmp_path / "backup"
    async with opened("memory://") as store, opened("memory://") as copy:
        for number, size in enumerate([9_000, 2_000, 20_000, 1, 9_998, 1, 1]):
            await store.create(f"/a/{number}", bytes(size))
        assert (await archive.backup(store, path, time=CLOCK)).entries == 7
        await archive.restore(copy, path)
        assert await content_of(copy) == await content_of(store)


async def test_a_device_is_not_replaced_by_a_backup(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with opened("memory://") as store:
        with pytest.raises(errors.StoreError, match="not an ordinary file; name a file"):
            await archive.backup(store, pipe, time=CLOCK)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


# --- encrypted backups ------------------------------------------------------------------------------------------------

KEY = bytes(range(32))


@pytest.fixture
async def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "sealed"
    async with opened("memory://") as store:
        await filled(store, 1203)
        await archive.backup(store, path, time=CLOCK, key=KEY)
    return path


async def test_an_encrypted_backup_shows_nothing_and_restores_with_its_key(sealed: Path) -> None:
    assert b"/a/" not in sealed.read_bytes()
    async with opened("memory://") as store:
        summary = await archive.restore(store, sealed, key=KEY)
        assert summary.entries == 1203
        assert len(await content_of(store)) == 1203


async def test_two_encrypted_backups_of_one_state_have_nothing_in_common(tmp_path: Path) -> None:
    async with opened("memory://") as store:
        await filled(store, 10)
        for name in ("one", "two"):
            await archive.backup(store, tmp_path / name, time=CLOCK, key=KEY)
    one, two = ((tmp_path / name).read_bytes()[12:] for name in ("one", "two"))
    assert one[:16] != two[:16]
    assert one[24:60] != two[24:60]


def test_an_encrypted_backup_needs_its_key_and_a_plain_one_has_none(sealed: Path, good: Path) -> None:
    with pytest.raises(errors.StoreError, match="is encrypted; name the key file"):
        archive.verify(sealed)
    with pytest.raises(errors.StoreError, match="does not open with this key"):
        archive.verify(sealed, key=bytes(32))
    with pytest.raises(errors.StoreError, match="is not encrypted"):
        archive.verify(good, key=KEY)


def sealed_frames(path: Path) -> tuple[bytes, list[bytes]]:
    """The beginning of an encrypted backup, and its frames with their lengths."""
    content = path.read_bytes()[: -hashlib.sha256().digest_size]
    head, rest = content[:28], content[28:]
    frames = []
    while rest:
        size = 8 + int.from_bytes(rest[:8], "big")
        frames.append(rest[:size])
        rest = rest[size:]
    return head, frames


def test_frames_that_were_moved_dropped_or_altered_do_not_open_although_the_digest_is_right(sealed: Path) -> None:
    head, frames = sealed_frames(sealed)
    assert len(frames) >= 4
    first, second, third, *others = frames
    altered = second[:-1] + bytes([second[-1] ^ 1])
    for changed in ([first, third, second, *others], [first, third, *others], [first, altered, third, *others]):
        sealed.write_bytes(signed(head + b"".join(changed)))
        with pytest.raises(errors.StoreError, match="does not open"):
            archive.verify(sealed, key=KEY)
    sealed.write_bytes(signed(head + b"".join(frames[:-1])))
    with pytest.raises(errors.Corrupt):
        archive.verify(sealed, key=KEY)
    sealed.write_bytes(signed(head + b"".join(frames)))
    assert archive.verify(sealed, key=KEY).entries == 1203


def test_a_key_file_is_private_and_has_32_bytes(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(errors.StoreError, match=r"there is no key file .* make one"):
        sealing.read_key(path)
    path.write_text(base64.b64encode(KEY).decode() + "\n")
    path.chmod(0o644)
    with pytest.raises(errors.StoreError, match="others may read the key file"):
        sealing.read_key(path)
    path.chmod(0o600)
    assert sealing.read_key(path) == KEY
    for wrong in ("", "short", base64.b64encode(bytes(16)).decode()):
        path.write_text(wrong)
        with pytest.raises(errors.StoreError, match="is no key file"):
            sealing.read_key(path)
