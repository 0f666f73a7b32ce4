"""A wrong address, a foreign file or a damaged one: one clear line, and nothing is written."""

import sqlite3
from pathlib import Path

import pytest

from rota.kit import errors as kit_errors
from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.sqlite import schema
from rota.store.store_interface import Store
from rota.testing.store_contract import opened


async def open_(url: str, *, create: bool = True) -> Store:
    return await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), create=create)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "url", ["", "store.db", "mysql://host/db", "sqlite:/x", "sqlite://x.db", "sqlite:///", "sqlite:///x?mode=ro", "://"]
)
async def test_a_wrong_url_is_refused_with_the_forms_that_work(url: str) -> None:
    with pytest.raises(errors.BadAddress, match="sqlite:///"):
        await open_(url)


async def test_a_password_never_shows_in_a_message() -> None:
    with pytest.raises(errors.BadAddress) as caught:
        await open_("mysql://me:secret@host/db")
    assert "secret" not in str(caught.value)


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.BadAddress, match="nowhere does not exist; create it"):
        await open_(f"sqlite:///{tmp_path}/nowhere/store.db")


async def test_a_store_that_should_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(errors.BadAddress, match="there is no store"):
        await open_(f"sqlite:///{tmp_path}/store.db", create=False)
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4080])
async def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    with pytest.raises(errors.Corrupt, match="restore a backup"):
        await open_(f"sqlite:///{tmp_path}/store.db")
    assert snapshot(tmp_path) == {"store.db": content}


async def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    connection.close()
    before = snapshot(tmp_path)
    with pytest.raises(errors.Corrupt, match="another program"):
        await open_(f"sqlite:///{tmp_path}/store.db")
    assert snapshot(tmp_path) == before


async def test_a_database_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/store.db") as store:
        await store.create("/a/x", b"1")
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute(f"PRAGMA user_version = {schema.FORMAT + 1}")
    connection.close()
    before = snapshot(tmp_path)
    with pytest.raises(errors.NewerFormat, match="newer Rota"):
        await open_(f"sqlite:///{tmp_path}/store.db")
    assert snapshot(tmp_path) == before


async def test_a_damaged_page_is_named_and_not_served(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(f"sqlite:///{path}") as store:
        for number in range(200):
            await store.create(f"/a/{number:03}", bytes(1000))
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xff" * (len(content) - 8192 - 4096)
    path.write_bytes(content)
    with pytest.raises(errors.Corrupt):
        async with opened(f"sqlite:///{path}") as store:
            await store.list("")


async def test_every_error_of_a_store_is_one_that_a_person_can_act_on() -> None:
    assert issubclass(errors.StoreError, kit_errors.UserError)


async def test_a_path_with_spaces_and_signs_works(tmp_path: Path) -> None:
    folder = tmp_path / "a folder % with # signs"
    folder.mkdir()
    url = f"sqlite:///{folder}/my%20store.db".replace("%", "%25", 1).replace("#", "%23")
    async with opened(url) as store:
        await store.create("/a/x", b"1")
    assert (folder / "my store.db").exists()
