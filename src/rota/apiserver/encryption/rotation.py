"""Which keys encrypt the values of a store, and the rewriting of all values with the first key.

Works beside running servers: each object is rewritten only if it has not changed in the meantime, and clients see a new
resourceVersion. The previous values stay in the store's history, under the old key, until that is compacted; so the old
key must be kept for a while.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from rota.apiserver.encryption import key_setup
from rota.apiserver.encryption.envelope import Keyring, Vault, sealed_with
from rota.store.store_interface import Entry, Refused, Store

_PAGE: Final = 500
#: How many are rewritten at once: durable writes cost much less together.
_TOGETHER: Final = 32
#: A server that has not seen a new key yet may write with the old one during the rewrite.
_PASSES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The values under one prefix."""

    prefix: str
    #: The key that encrypts new values; None if they stay plain.
    primary: str | None
    #: Number of objects by the name of their key; plain ones under the empty name.
    by_key: Mapping[str, int]

    @property
    def outdated(self) -> int:
        """How many are not encrypted with the first key."""
        return sum(count for name, count in self.by_key.items() if name != (self.primary or ""))


async def survey(store: Store, vault: Vault) -> list[Holdings]:
    """Count the values; `store` is the one with the encrypted values."""
    found = []
    for prefix, ring in vault.rings.items():
        by_key: Counter[str] = Counter()
        async for entry in _entries(store, prefix):
            by_key[sealed_with(entry.value) or ""] += 1
        found.append(Holdings(prefix=prefix, primary=ring.primary, by_key=by_key))
    return found


async def rewrite(store: Store, vault: Vault) -> int:
    """Encrypt everything with the first key; returns how many objects had another, or none. Raises what `envelope`
    raises.
    """
    rewritten = 0
    for prefix, ring in vault.rings.items():
        for _ in range(_PASSES):
            changed = await _rewrite(store, prefix, ring)
            rewritten += changed
            if not changed:
                break
    await key_setup.leave_mark(store, vault)
    return rewritten


async def _rewrite(store: Store, prefix: str, ring: Keyring) -> int:
    async def rewritten(entry: Entry) -> bool:
        value = ring.seal(entry.key, ring.open(entry.key, entry.value))
        outcome = await store.update(entry.key, value, expected=entry.revision, lease=entry.lease)
        return not isinstance(outcome, Refused)

    outdated = [entry async for entry in _entries(store, prefix) if sealed_with(entry.value) != ring.primary]
    changed = 0
    for start in range(0, len(outdated), _TOGETHER):
        changed += sum(await asyncio.gather(*map(rewritten, outdated[start : start + _TOGETHER])))
    return changed


async def _entries(store: Store, prefix: str) -> AsyncIterator[Entry]:
    page = await store.list(prefix, limit=_PAGE)
    while True:
        for entry in page.entries:
            yield entry
        if not page.remaining:
            return
        page = await store.list(prefix, limit=_PAGE, after=page.entries[-1].key, revision=page.revision)
