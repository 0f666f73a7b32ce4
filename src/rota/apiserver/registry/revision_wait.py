"""Waits for a revision that a client knows and this server does not know yet."""

from typing import Final

from rota.api import errors
from rota.apiserver.registry.revisions import PATIENCE_S
from rota.kit.clock import Clock
from rota.store.store_interface import Store

_LOOK_EVERY_S: Final = 0.1


async def reach(store: Store, revision: int, clock: Clock) -> None:
    """Return once the store has reached a revision; Timeout (cause ResourceVersionTooLarge) if that takes too long."""
    deadline = clock.monotonic() + PATIENCE_S
    while True:
        newest = (await store.revision_range()).revision
        if newest >= revision:
            return
        if clock.monotonic() >= deadline:
            raise errors.resource_version_too_large(revision, newest)
        await clock.sleep(_LOOK_EVERY_S)
