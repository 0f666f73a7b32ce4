"""Checks at the start that a key file belongs to its store.

The store holds a marker that is encrypted with the key in use. So a server detects a wrong key file at once, and of two
servers that start on a new store at the same moment, each with a generated key, only one continues.
"""

import asyncio
from pathlib import Path
from typing import Final

from rota.apiserver.encryption import keyfile
from rota.apiserver.encryption.configuration import ConfigurationError
from rota.apiserver.encryption.envelope import KeyMissing, Unopenable, Vault, sealed_with
from rota.apiserver.encryption.keyfile import KeyFile
from rota.kit.clock import Clock
from rota.store.store_interface import Entry, Store

#: No API group can begin with a tilde.
MARK_KEY: Final = "/~encryption/mark"
_TEXT: Final = b"opened"


async def open_keys(store: Store, path: Path, clock: Clock) -> KeyFile:
    """The keys of a store; a missing file is generated, unless the store needs the missing one."""
    mark = await store.get(MARK_KEY)
    if mark is None:
        await asyncio.to_thread(keyfile.generate, path, now=clock.now())
    elif not await asyncio.to_thread(path.exists):
        raise ConfigurationError(
            f"the store is encrypted with the key {sealed_with(mark.value)!r}, and there is no key file {path}",
            "put back the file that its first server made",
        )
    keys = KeyFile(path, clock)
    if mark is None:
        await leave_mark(store, keys.vault)
        mark = await store.get(MARK_KEY)
    if mark is not None:
        _check(mark, keys)
    return keys


async def leave_mark(store: Store, vault: Vault) -> None:
    """Encrypt the store's marker with the key in use; without a key there is none. The first server wins."""
    mark = await store.get(MARK_KEY)
    ring = next((ring for ring in vault.rings.values() if ring.primary), None)
    if ring is not None:
        value = ring.seal(MARK_KEY, _TEXT)
        await store.update(MARK_KEY, value, expected=mark.revision if mark is not None else 0)
    elif mark is not None:
        await store.delete(MARK_KEY, expected=mark.revision)


def _check(mark: Entry, keys: KeyFile) -> None:
    """Refuse keys that are not the store's."""
    problem: KeyMissing | Unopenable | None = None
    for ring in keys.vault.rings.values():
        try:
            ring.open(MARK_KEY, mark.value)
        except (KeyMissing, Unopenable) as error:
            problem = error
        else:
            return
    name = sealed_with(mark.value)
    raise ConfigurationError(
        f"the store is encrypted with the key {name!r}, and {keys.path} does not hold it",
        "use the key file of the server that was there first",
    ) from problem
