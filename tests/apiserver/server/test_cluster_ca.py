"""The authority and keys of a store's servers: created once, shared, and encrypted in a store with a key file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.apiserver.encryption import key_setup, keyfile, rotation
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.store import EncryptedStore
from rota.apiserver.server import cluster_ca
from rota.kit import system
from rota.pki import keys
from rota.pki.authorities import Authority
from rota.pki.keys import KeyMaterialError
from rota.store import store_factory as stores
from rota.store.store_interface import Store
from rota.testing.clocks import FakeClock

NOW = FakeClock().now()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await stores.open_store("memory://", time=FakeClock(), rng=system.rng())
    yield opened
    await opened.close()


async def test_servers_that_start_together_agree(store: Store) -> None:
    first, second = await asyncio.gather(cluster_ca.ensure(store, now=NOW), cluster_ca.ensure(store, now=NOW))
    assert first.authority.certificate_pem == second.authority.certificate_pem
    assert first.account_key.public_key() == second.account_key.public_key()


async def test_a_restart_changes_nothing(store: Store) -> None:
    before = await cluster_ca.ensure(store, now=NOW)
    after = await cluster_ca.ensure(store, now=NOW + 86_400)
    assert before.authority.certificate_pem == after.authority.certificate_pem


async def test_keys_are_never_plain_in_the_database_and_move_to_a_new_key(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    opened = await key_setup.open_keys(store, path, FakeClock())
    made = await cluster_ca.ensure(EncryptedStore(store, opened), now=NOW)
    entry = await store.get(cluster_ca.KEY)
    assert entry is not None
    assert b"PRIVATE KEY" not in entry.value
    keyfile.add_key(path, now=NOW)
    assert await rotation.rewrite(store, KeyFile(path, FakeClock()).vault) == 1
    again = await cluster_ca.ensure(EncryptedStore(store, KeyFile(path, FakeClock())), now=NOW)
    assert again.authority.certificate_pem == made.authority.certificate_pem


async def test_an_operators_authority_takes_the_place_of_the_stores(store: Store, tmp_path: Path) -> None:
    own = Authority.create(now=NOW, name="example corporation")
    (tmp_path / "ca.crt").write_bytes(own.certificate_pem)
    (tmp_path / "ca.key").write_bytes(own.key_pem)
    provided = await cluster_ca.read_provided_ca(tmp_path)
    shared = await cluster_ca.ensure(store, now=NOW, provided=provided)
    assert shared.authority.certificate_pem == own.certificate_pem
    plain = await cluster_ca.ensure(store, now=NOW)
    assert plain.authority.certificate_pem != own.certificate_pem
    assert plain.account_key.public_key() == shared.account_key.public_key()
    own_key = keys.generate()
    (tmp_path / "sa.key").write_bytes(keys.to_pem(own_key))
    shared = await cluster_ca.ensure(store, now=NOW, provided=await cluster_ca.read_provided_ca(tmp_path))
    assert shared.account_key.public_key() == own_key.public_key()


async def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyMaterialError, match=r"ca\.crt: No such file"):
        await cluster_ca.read_provided_ca(tmp_path)


async def test_an_authority_that_ends_soon_is_reported(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    made = await cluster_ca.ensure(store, now=NOW)
    await cluster_ca.ensure(store, now=made.authority.not_after - 1000)
    assert "the cluster's authority ends within a year: provide another one" in caplog.messages
