"""The level of a cluster for the command line: what its store, masters and workers have, and raising it.

The members are read from the store, so that the command needs the store's URL and nothing else.
"""

from typing import Any, Final, NamedTuple

import msgspec

from rota import backups
from rota.api import keys, meta
from rota.api.meta import Object
from rota.client import masters
from rota.kit import levels, system
from rota.kit.levels import Levels
from rota.store import roles
from rota.store.errors import StoreError
from rota.store.store_interface import Store

_PAGE: Final = 500


class _Kind(NamedTuple):
    """A resource, as far as its keys depend on it."""

    group: str
    plural: str
    namespaced: bool


_LEASES: Final = keys.prefix(_Kind(masters.LEASES[0], masters.LEASES[2], namespaced=True), masters.NAMESPACE)
_NODES: Final = keys.prefix(_Kind("", "nodes", namespaced=False))


class Members(NamedTuple):
    """The levels of running masters by address, and of nodes by name."""

    masters: dict[str, Levels]
    workers: dict[str, Levels]


async def status(url: str) -> dict[str, Any]:
    """The level of the cluster, the levels of this release and of all members, and the formats that it writes."""
    async with backups.opened(url, create=False) as store:
        role = (await roles.read(store)).role
        members = await _members(store)
    return {
        "level": role.level,
        "release": str(levels.OWN),
        "masters": {name: str(one) for name, one in members.masters.items()},
        "workers": {name: str(one) for name, one in members.workers.items()},
        "formats": dict(levels.FORMATS),
    }


async def raise_level(url: str) -> tuple[int, int]:
    """Raise the level as far as all members allow; returns the level before and after.

    UserError if a member does not know the next level, or if this release cannot work at the present one.
    """
    async with backups.opened(url, create=False) as store:
        first = (await roles.read(store)).role.level
        while True:
            before = await roles.read(store)
            roles.check_writable(before.role)
            members = await _members(store)
            wanted = levels.target(before.role.level, members.masters, members.workers)
            if wanted == before.role.level:
                return first, wanted
            await roles.raise_level(store, wanted, before)


async def _members(store: Store) -> Members:
    now = system.SystemClock().now()
    found = [masters.read(one) for one in await _objects(store, _LEASES)]
    return Members(
        {one.address: one.release_levels for one in found if one is not None and one.is_current(now)},
        {meta.name(one): levels.declared(meta.annotations(one)) for one in await _objects(store, _NODES)},
    )


async def _objects(store: Store, prefix: str) -> list[Object]:
    found: list[Object] = []
    after = ""
    while True:
        page = await store.list(prefix, limit=_PAGE, after=after)
        for entry in page.entries:
            try:
                found.append(msgspec.json.decode(entry.value))
            except msgspec.DecodeError:
                raise StoreError(
                    f"{entry.key} cannot be read in the store, so the level of that member is not known",
                    "leave leases and nodes out of the encryption keys, and run rota encryption rotate",
                ) from None
        if not page.remaining:
            return found
        after = page.entries[-1].key
