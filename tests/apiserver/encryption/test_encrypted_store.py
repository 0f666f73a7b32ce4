"""A store that encrypts: it keeps all guarantees of a store, and the store below it holds no plain secret."""

import base64
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota.apiserver.encryption import key_setup, keyfile, rotation
from rota.apiserver.encryption.configuration import ConfigurationError
from rota.apiserver.encryption.envelope import Key, KeyMissing, Keyring, Vault, sealed_with
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.store import EncryptedStore
from rota.kit import system
from rota.store import archive, errors
from rota.store.store_interface import Entry, Store
from rota.testing.api import ApiServer
from rota.testing.databases import FreshDatabase
from rota.testing.store_contract import StoreContract, gather_events, gather_to, opened, revision_of

CLOCK = system.SystemClock()
SECRETS = "/api/v1/namespaces/default/secrets"
PLACE = "/core/secrets/default/token"
VALUE = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"token"},"data":{"token":"aHVudGVyMg=="}}'


class Everything:
    """Keys for everything."""

    def __init__(self) -> None:
        self.vault = Vault({"/": Keyring([Key("k", bytes(32))], source="nowhere")})

    def look(self) -> bool:
        return False


class TestAllPromises(StoreContract):
    """The contract of every store, with encrypted values; one backend is enough, since the others are the same
    below.
    """

    keys = Everything()

    @pytest.fixture
    def database(self) -> FreshDatabase:
        # of a kind whose history the contract does not read past the store: what lies there is sealed
        return FreshDatabase("etcd", f"memory://{secrets.token_hex(6)}")

    @pytest_asyncio.fixture
    async def store(self, database: FreshDatabase) -> AsyncIterator[Store]:
        async with opened(database.url) as inner:
            yield EncryptedStore(inner, self.keys)

    @pytest_asyncio.fixture
    async def second(self, database: FreshDatabase, store: Store) -> AsyncIterator[Store]:
        async with opened(database.url) as inner:
            yield EncryptedStore(inner, self.keys)


async def raw(store: Store, place: str = PLACE) -> Entry:
    entry = await store.get(place)
    assert entry is not None
    return entry


@pytest_asyncio.fixture
async def plain(database: FreshDatabase) -> AsyncIterator[Store]:
    async with opened(database.url) as store:
        yield store


@pytest.fixture
def sealing(plain: Store, keys: KeyFile) -> EncryptedStore:
    return EncryptedStore(plain, keys)


async def test_what_lies_below_is_sealed(plain: Store, sealing: EncryptedStore) -> None:
    await sealing.create(PLACE, VALUE)
    await sealing.create("/core/configmaps/default/a", VALUE)
    assert sealed_with((await raw(plain)).value) == "1970-01-01"
    assert b"hunter" not in (await raw(plain)).value
    assert (await raw(sealing)).value == VALUE
    assert (await raw(plain, "/core/configmaps/default/a")).value == VALUE


async def test_values_from_before_are_readable_and_sealed_when_written(plain: Store, sealing: EncryptedStore) -> None:
    revision = revision_of(await plain.create(PLACE, VALUE))
    assert (await raw(sealing)).value == VALUE
    assert [entry.value for entry in (await sealing.list("/core/")).entries] == [VALUE]
    await sealing.update(PLACE, VALUE, expected=revision)
    assert sealed_with((await raw(plain)).value)


async def test_a_key_that_was_just_put_into_the_file_opens(plain: Store, sealing: EncryptedStore, path: Path) -> None:
    keyfile.add_key(path, now=0.0)
    await EncryptedStore(plain, KeyFile(path, CLOCK)).create(PLACE, VALUE)
    assert (await raw(sealing)).value == VALUE


async def test_a_missing_key_is_named(plain: Store, sealing: EncryptedStore, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    keyfile.generate(other, now=1e9)
    await EncryptedStore(plain, KeyFile(other, CLOCK)).create(PLACE, VALUE)
    for asking in (sealing.get(PLACE), sealing.list("/core/secrets/")):
        with pytest.raises(KeyMissing, match="the key '2001-09-09', which is not in"):
            await asking


async def test_a_watch_that_meets_a_lost_key_has_to_list_again(
    plain: Store, sealing: EncryptedStore, path: Path
) -> None:
    start = (await plain.revision_range()).revision
    await sealing.create(PLACE, VALUE)
    keyfile.add_key(path, now=0.0)
    await rotation.rewrite(plain, KeyFile(path, CLOCK).vault)
    keyfile.forget_keys(path, frozenset({"1970-01-01"}))
    later = EncryptedStore(plain, KeyFile(path, CLOCK))
    async with later.watch("/core/secrets/", after=start) as watch:
        with pytest.raises(errors.Expired):
            await gather_events(watch, lambda events: len(events) == 2)
    assert [entry.value for entry in (await later.list("/core/secrets/")).entries] == [VALUE]


async def test_watches_of_other_resources_are_the_inner_ones(plain: Store, sealing: EncryptedStore) -> None:
    after = (await plain.revision_range()).revision
    assert type(sealing.watch("/core/pods/", after=after)) is type(plain.watch("/core/pods/", after=after))


class TestRotation:
    async def test_everything_ends_up_under_the_new_key(
        self, plain: Store, sealing: EncryptedStore, path: Path
    ) -> None:
        await plain.create("/core/secrets/default/before", VALUE)
        for number in range(7):
            await sealing.create(f"/core/secrets/default/{number}", VALUE)
        name = keyfile.add_key(path, now=0.0)
        vault = KeyFile(path, CLOCK).vault
        holdings, _ = await rotation.survey(plain, vault)
        assert (holdings.by_key, holdings.outdated) == ({"": 1, "1970-01-01": 7}, 8)
        assert await rotation.rewrite(plain, vault) == 8
        assert await rotation.rewrite(plain, vault) == 0
        holdings, _ = await rotation.survey(plain, vault)
        assert (holdings.by_key, holdings.outdated) == ({name: 8}, 0)
        assert {entry.value for entry in (await sealing.list("/core/secrets/")).entries} == {VALUE}

    async def test_a_running_watch_goes_on(self, plain: Store, sealing: EncryptedStore, path: Path) -> None:
        await sealing.create(PLACE, VALUE)
        after = (await plain.revision_range()).revision
        async with sealing.watch("/core/secrets/", after=after) as watch:
            keyfile.add_key(path, now=0.0)
            await rotation.rewrite(plain, KeyFile(path, CLOCK).vault)
            (event,) = await gather_events(watch, bool)
        assert (event.value, event.previous) == (VALUE, VALUE)


class TestOpening:
    async def test_the_first_start_makes_keys_and_the_next_takes_them(self, plain: Store, tmp_path: Path) -> None:
        first = await key_setup.open_keys(plain, tmp_path / "k", CLOCK)
        second = await key_setup.open_keys(plain, tmp_path / "k", CLOCK)
        assert first.vault.rings["/core/secrets/"].names == second.vault.rings["/core/secrets/"].names

    async def test_a_store_whose_file_is_gone_is_not_opened_with_a_new_one(self, plain: Store, tmp_path: Path) -> None:
        await key_setup.open_keys(plain, tmp_path / "k", CLOCK)
        (tmp_path / "k").unlink()
        with pytest.raises(ConfigurationError, match="put back the file"):
            await key_setup.open_keys(plain, tmp_path / "k", CLOCK)
        assert not (tmp_path / "k").exists()

    async def test_a_server_with_another_file_is_not_started(self, plain: Store, tmp_path: Path) -> None:
        await key_setup.open_keys(plain, tmp_path / "first", CLOCK)
        keyfile.generate(tmp_path / "second", now=1e9)
        with pytest.raises(ConfigurationError, match="second does not hold it; use the key file of the server"):
            await key_setup.open_keys(plain, tmp_path / "second", CLOCK)

    async def test_the_old_file_is_refused_after_a_rotation(self, plain: Store, path: Path, tmp_path: Path) -> None:
        await key_setup.open_keys(plain, path, CLOCK)
        old = tmp_path / "old"
        old.touch(mode=0o600)
        old.write_text(path.read_text())
        keyfile.add_key(path, now=0.0)
        await rotation.rewrite(plain, KeyFile(path, CLOCK).vault)
        with pytest.raises(ConfigurationError, match=r"1970-01-01\.2"):
            await key_setup.open_keys(plain, old, CLOCK)


async def test_a_backup_holds_no_secret_and_restores_with_the_key_file(
    plain: Store, sealing: EncryptedStore, keys: KeyFile, tmp_path: Path
) -> None:
    await sealing.create(PLACE, VALUE)
    await archive.backup(plain, tmp_path / "backup", time=CLOCK)
    async with opened(f"sqlite:///{tmp_path}/restored.db") as restored:
        await archive.restore(restored, tmp_path / "backup")
        assert b"hunter" not in (await raw(restored)).value
        assert (await raw(EncryptedStore(restored, keys))).value == VALUE


class TestServer:
    async def test_secrets_go_in_and_out_and_the_file_of_the_database_holds_none(
        self, keys: KeyFile, tmp_path: Path
    ) -> None:
        needle = random.Random(5).randbytes(12).hex()
        url = f"sqlite:///{tmp_path}/store.db"
        async with ApiServer(store_url=url, encryption=keys) as api, api.watch(SECRETS) as events:
            made = await api.post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"password": needle}})
            assert made.code == 201
            patch = {"stringData": {"again": needle}, "metadata": {"annotations": {"note": needle}}}
            assert (await api.patch(f"{SECRETS}/s", patch, kind="merge")).code == 200
            shown = (await api.get(f"{SECRETS}/s")).json
            assert shown["metadata"]["annotations"] == {"note": needle}
            assert [event["object"]["kind"] for event in await events.take(2)] == ["Secret", "Secret"]
            assert [one["data"] for one in (await api.get("/api/v1/secrets")).json["items"]] == [shown["data"]]
            files = [item for item in tmp_path.iterdir() if item.name.startswith("store.db")]
            content = b"".join(item.read_bytes() for item in files if item.is_file())
        assert b"/core/secrets/default/s" in content
        for form in (needle.encode(), base64.b64encode(needle.encode())):
            assert form not in content

    async def test_neither_what_stands_nor_history_of_any_database_holds_a_secret(
        self, database: FreshDatabase, keys: KeyFile
    ) -> None:
        needle = base64.b64encode(random.Random(6).randbytes(24)).decode()
        async with opened(database.url) as raw_store:
            start = (await raw_store.revision_range()).revision
            async with ApiServer(store_url=database.url, encryption=keys) as api:
                await api.post(SECRETS, {"metadata": {"name": "s"}, "data": {"a": needle}})
                await api.patch(f"{SECRETS}/s", {"data": {"b": needle}})
                assert (await api.delete(f"{SECRETS}/s")).code == 200
                await api.post(SECRETS, {"metadata": {"name": "t"}, "data": {"a": needle}})
                assert needle in (await api.get(f"{SECRETS}/t")).body.decode()
            last = await raw(raw_store, "/core/secrets/default/t")
            async with raw_store.watch("", after=start) as watch:
                history = await gather_to(watch, last.revision)
            admission_fingerprint = (await raw_store.list("")).entries
        told = [event for event in history if event.key.startswith("/core/secrets/default/")]
        assert [event.key[-1] for event in told] == ["s", "s", "s", "t"]
        everything = [part for event in history for part in (event.value, event.previous) if part is not None]
        everything += [entry.value for entry in admission_fingerprint]
        assert not [value for value in everything if needle.encode() in value]

    async def test_a_missing_key_is_one_clear_answer(self, path: Path, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/store.db"
        async with ApiServer(store_url=url, encryption=KeyFile(path, CLOCK)) as api:
            await api.post(SECRETS, {"metadata": {"name": "s"}})
        other = tmp_path / "other.yaml"
        keyfile.generate(other, now=1e9)
        async with ApiServer(store_url=url, encryption=KeyFile(other, CLOCK)) as api:
            for place in (f"{SECRETS}/s", SECRETS):
                answer = await api.get(place)
                assert answer.code == 500
                assert "/core/secrets/default/s is encrypted with the key '1970-01-01'" in answer.json["message"]
            assert (await api.get("/api/v1/namespaces/default/configmaps")).code == 200
