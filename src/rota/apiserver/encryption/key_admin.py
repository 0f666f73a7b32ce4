"""Administration of a store's encryption keys: status, rotation, removal of old keys.

`store` is the one with the encrypted values. Servers may run on it at the same time: those that read the same key file
find a new key in it by themselves.
"""

import asyncio
from pathlib import Path

from rota.apiserver.encryption import key_setup, keyfile, rotation
from rota.apiserver.encryption.envelope import sealed_with
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.rotation import Holdings
from rota.kit.clock import Clock
from rota.store.store_interface import Store


async def status(store: Store, path: Path, clock: Clock) -> list[Holdings]:
    """Which keys encrypt what, for every resource of the key file."""
    keys = await key_setup.open_keys(store, path, clock)
    return await rotation.survey(store, keys.vault)


async def rotate(store: Store, path: Path, clock: Clock, *, new_key: bool) -> tuple[str, int]:
    """Encrypt everything with a new key, or with the first one of the file; returns its name, and how many were
    rewritten.
    """
    # first: a file that is not the store's must not get a key that would then encrypt everything
    keys = await key_setup.open_keys(store, path, clock)
    if new_key:
        await asyncio.to_thread(keyfile.add_key, path, now=clock.now())
        keys = KeyFile(path, clock)
    rewritten = await rotation.rewrite(store, keys.vault)
    names = [ring.primary for ring in keys.vault.rings.values() if ring.primary]
    return ", ".join(dict.fromkeys(names)) or "none: values are stored plain", rewritten


async def forget(store: Store, path: Path, clock: Clock) -> list[str]:
    """Remove keys from the file that no value uses any more; returns their names."""
    keys = await key_setup.open_keys(store, path, clock)
    mark = await store.get(key_setup.MARK_KEY)
    used = {name for holdings in await rotation.survey(store, keys.vault) for name in holdings.by_key}
    used |= {ring.primary or "" for ring in keys.vault.rings.values()}
    used.add((sealed_with(mark.value) if mark is not None else None) or "")
    idle = {name for ring in keys.vault.rings.values() for name in ring.names} - used
    if idle:
        await asyncio.to_thread(keyfile.forget_keys, path, frozenset(idle))
    return sorted(idle)
