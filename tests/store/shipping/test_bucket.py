"""A continuous backup in a bucket: the same moments as in a folder, through the S3 API of a real server."""

import asyncio
import base64
import contextlib
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.store.shipping import s3_server
from tests.store.shipping.test_following import Shipped, following, write

from rota import backups
from rota.kit import system
from rota.kit.metrics import Metrics
from rota.store import errors, roles
from rota.store.logstore import LogStore
from rota.store.shipping import places, recovery, s3_client
from rota.store.shipping.bucket import BucketPlace
from rota.store.shipping.follower import Follower, Settings
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.shipping.places import ClaimLost
from rota.store.shipping.s3_client import S3Client
from rota.store.standby_sources import PlaceSource
from rota.store.store_interface import Entry, RevisionRange
from rota.testing.clocks import FakeClock
from rota.testing.store_contract import PATIENCE_S, opened

CLOCK = system.SystemClock()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with s3_server.serving(monkeypatch) as found:
        yield found


def client_of(environment: dict[str, str]) -> S3Client:
    bucket, _ = s3_client.parse(f"s3://{s3_server.BUCKET}/rota", environment)
    return S3Client(bucket, CLOCK)


def place_of(environment: dict[str, str], scratch: Path, key: bytes | None = None) -> BucketPlace:
    scratch.mkdir(exist_ok=True)
    return BucketPlace(
        client_of(environment), "rota", name="s3://backups/rota", scratch=scratch, time=CLOCK, key=key, pause_s=0.001
    )


def state(place: BucketPlace, revision: int | None = None, at: float | None = None) -> dict[str, bytes]:
    found = place.catalog()
    wanted = recovery.moment(place, found, revision=revision, at=at)
    return {entry.key: entry.value for entry in recovery.state(place, found, wanted)}


def test_objects_are_written_listed_read_and_deleted(environment: dict[str, str], tmp_path: Path) -> None:
    client = client_of(environment)
    names = [f"p/a b+c=é/{number:04}" for number in range(1005)]  # more than one page of a list
    for name in (names[0], names[7], *names[1000:]):
        client.put(name, b"content of " + name.encode())
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    client.put("p/file", tmp_path / "file")
    assert list(client.list("p/a b")) == [names[0], names[7], *names[1000:]]
    assert client.get(names[7]) == b"content of " + names[7].encode()
    client.download("p/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"x" * 3_000_000
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    client.delete(names[7])
    client.delete(names[7])
    assert list(client.list("p/a b")) == [names[0], *names[1000:]]
    with pytest.raises(s3_client.S3Missing):
        client.get(names[7])


def test_a_wrong_secret_is_refused_and_a_server_that_is_down_may_come_back(environment: dict[str, str]) -> None:
    with pytest.raises(s3_client.S3Refused, match="SignatureDoesNotMatch"):
        client_of({**environment, "AWS_SECRET_ACCESS_KEY": "wrong"}).put("x", b"")
    with pytest.raises(OSError):  # noqa: PT011 - each system words it in its own way
        client_of({**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}).put("x", b"")


async def test_every_revision_in_a_bucket_can_be_restored(environment: dict[str, str], tmp_path: Path) -> None:
    rng, key = random.Random(21), b"k" * 32
    place = place_of(environment, tmp_path / "scratch", key)
    async with opened("memory://") as store:
        async with following(store, place) as shipped:
            await shipped.reaches(1)
            history = await write(store, rng, 10)
            await shipped.reaches(max(history))
            middle = shipped.latest
            history |= await write(store, rng, 10)
            await shipped.reaches(max(history))
        history |= await write(store, rng, 10)
        async with following(store, place) as shipped:  # continues after the confirmed part
            await shipped.reaches(max(history))
    reader = place_of(environment, tmp_path / "other", key)
    assert len(reader.catalog().windows()) == 1
    for revision, content in history.items():
        assert state(reader, revision) == content
    assert state(reader, at=middle.at + 1e-6) == history[middle.revision]
    with pytest.raises(errors.StoreError, match="is encrypted"):
        state(place_of(environment, tmp_path / "without"))


async def test_an_object_that_is_not_what_its_name_says_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    """A part that was cut off between two frames reads as a shorter one; the catalog knows only its name."""
    place = place_of(environment, tmp_path / "scratch")
    async with opened("memory://") as store, following(store, place) as shipped:
        await shipped.reaches(1)
        history = await write(store, random.Random(25), 1)
        await shipped.reaches(max(history))
        history |= await write(store, random.Random(26), 1)
        await shipped.reaches(max(history))
    client, reader = client_of(environment), place_of(environment, tmp_path / "other")
    part = reader.catalog().segments[-1]
    cut = reader.local(part.path).read_bytes()[:-1]
    client.put(f"rota/{part.path.name}", cut)
    with pytest.raises(errors.Corrupt, match="does not hold what its name says"):
        state(place_of(environment, tmp_path / "third"))
    base = reader.catalog().bases[-1]
    client.delete(f"rota/{part.path.name}")
    client.put(f"rota/base-{base.revision + 1:020}-1.backup", reader.local(base.path))
    with pytest.raises(errors.Corrupt, match="does not hold what its name says"):
        state(place_of(environment, tmp_path / "fourth"))


async def test_a_standby_keeps_no_copies_of_what_it_has_read(environment: dict[str, str], tmp_path: Path) -> None:
    place = place_of(environment, tmp_path / "scratch")
    async with opened("memory://") as store, following(store, place) as shipped:
        history = await write(store, random.Random(27), 3)
        await shipped.reaches(max(history))
    reader = place_of(environment, tmp_path / "other")
    assert (await PlaceSource(reader, CLOCK).snapshot()).revision == max(history)
    assert list((tmp_path / "other").iterdir()) == []


async def test_old_objects_are_removed_and_a_part_has_one_object(environment: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(22)
    place = place_of(environment, tmp_path / "scratch")
    async with opened("memory://") as store:
        async with following(store, place, Settings(base_every_s=0.0, keep_s=0.0)) as shipped:
            await shipped.reaches(1)
            history: dict[int, dict[str, bytes]] = {}
            while not history or place.catalog().bases[0].revision < 10:
                history |= await write(store, rng, 5)
                await shipped.reaches(max(history))
        found = place.catalog()
        assert len({segment.after for segment in found.segments}) == len(found.segments)
        assert state(place) == history[max(history)]


async def test_a_writer_ends_when_another_one_claimed_the_place(environment: dict[str, str], tmp_path: Path) -> None:
    time = FakeClock()
    place = BucketPlace(client_of(environment), "rota", name="s3://b", scratch=tmp_path, time=time)
    (tmp_path / "file").write_bytes(b"")
    with contextlib.ExitStack() as claims:
        claims.enter_context(place.claim())
        claims.enter_context(place_of(environment, tmp_path / "other").claim())
        await time.advance(60.0)
        with pytest.raises(ClaimLost, match="another `rota backup` writes to s3://b"):
            place.upload("x", tmp_path / "file")


async def test_a_refusal_in_the_middle_is_waited_out(environment: dict[str, str], tmp_path: Path) -> None:
    """Credentials that have expired are renewed, and a policy is corrected."""
    place, metrics = place_of(environment, tmp_path / "scratch"), Metrics("backup")
    async with opened("memory://") as store:
        shipped = Shipped()
        follower = Follower(store, place, time=CLOCK, on_confirmed=shipped, metrics=ShippingMetrics(metrics))
        running = asyncio.create_task(follower.run())
        try:
            await shipped.reaches(1)
            good = place._client
            place._client = client_of({**environment, "AWS_SECRET_ACCESS_KEY": "expired"})  # type: ignore[misc]
            history = await write(store, random.Random(30), 3)
            async with asyncio.timeout(PATIENCE_S):
                while not metrics.value("errors_total", what="log"):  # noqa: ASYNC110 - the follower counts
                    await asyncio.sleep(0.01)
            assert not running.done()
            place._client = good  # type: ignore[misc]
            await shipped.reaches(max(history))
        finally:
            running.cancel()
            await asyncio.wait([running])
    assert state(place, max(history)) == history[max(history)]


async def test_a_bucket_belongs_to_one_store(environment: dict[str, str], tmp_path: Path) -> None:
    place = place_of(environment, tmp_path / "scratch")
    async with opened("memory://") as one, opened("memory://") as other:
        for store in (one, other):
            await roles.begin(store)
        for _ in range(2):
            async with places.claimed(place, one):
                assert place.owner() == (await roles.read(one)).role.identity
        with pytest.raises(errors.StoreError, match="has the backups of another store; name an empty place"):
            await Follower(other, place, time=CLOCK).run()


async def test_a_backup_of_another_store_does_not_end_that_of_the_owner(
    environment: dict[str, str], tmp_path: Path
) -> None:
    clock = FakeClock()
    place = BucketPlace(client_of(environment), "rota", name="s3://backups/rota", scratch=tmp_path, time=clock)
    mistaken = place_of(environment, tmp_path / "other")
    file = tmp_path / "file"
    file.write_bytes(b"x")
    async with opened("memory://") as one, opened("memory://") as other:
        for store in (one, other):
            await roles.begin(store)
        async with places.claimed(place, one):
            with pytest.raises(errors.StoreError, match="has the backups of another store"):
                await Follower(other, mistaken, time=CLOCK).run()
            await clock.advance(60)
            await asyncio.to_thread(place.upload, "file", file)  # the claim is still this one's


async def test_a_bucket_that_cannot_be_used_is_refused_at_the_start(
    environment: dict[str, str], tmp_path: Path
) -> None:
    bucket, _ = s3_client.parse("s3://missing/rota", environment)
    place = BucketPlace(S3Client(bucket, CLOCK), "rota", name="s3://missing/rota", scratch=tmp_path, time=CLOCK)
    async with opened("memory://") as store:
        with pytest.raises(errors.StoreError, match="NoSuchBucket"):
            await Follower(store, place, time=CLOCK).run()


async def test_a_store_is_backed_up_listed_verified_and_restored_by_its_address_in_s3(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(base64.b64encode(b"k" * 32))
    source, copy, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db", f"s3://{s3_server.BUCKET}/daily"
    async with opened(source) as store:
        history = await write(store, random.Random(23), 600)
    done = await backups.backup_to_place(source, target, key_file=key)
    assert done["revision"] == max(history)
    (window,) = backups.windows(target, key_file=key)
    assert (window["first_revision"], window["last_revision"]) == (max(history), max(history))
    content = history[max(history)]
    assert await backups.verify(target, key_file=key) == {
        "files": 1,
        "entries": len(content),
        "revision": max(history),
    }
    await backups.restore_moment(target, copy, revision=None, at=None, key_file=key)
    async with opened(copy) as store:
        assert {entry.key: entry.value for entry in (await store.list("")).entries} == content


async def test_a_restore_that_differs_from_its_backup_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, file = f"sqlite:///{tmp_path}/a.db", tmp_path / "file"
    async with opened(source) as store:
        await write(store, random.Random(24), 30)
    await backups.backup(source, file, progress=lambda _: None)
    honest = LogStore.load

    async def lossy(self: LogStore, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        return await honest(self, list(entries)[:-1], revision=revision)

    monkeypatch.setattr(LogStore, "load", lossy)
    with pytest.raises(errors.Corrupt, match="holds more entries than it restores"):
        await backups.verify(str(file))
