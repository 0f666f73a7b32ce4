"""The RBAC policy in step with the store: watches four kinds and passes every change to the index."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from rota.api import errors, meta
from rota.api.identifiers import GroupResource
from rota.api.scheme import Scheme
from rota.apiserver.authorization import rbac
from rota.apiserver.authorization.rbac import Policy
from rota.apiserver.cache.watch_cache import Listener, WatchCache
from rota.apiserver.interfaces import Object
from rota.kit.clock import Clock
from rota.store.store_interface import Store

_ROLES: Final = ("clusterroles", "roles")
_BINDINGS: Final = ("clusterrolebindings", "rolebindings")
#: No request is refused by outdated permissions.
STALE: Final = "this server does not know the latest rights yet; try again"


class PolicyCache:
    """A policy that follows the store with a small lag."""

    def __init__(self, store: Store, scheme: Scheme, clock: Clock) -> None:
        self.policy: Final = Policy()
        self._followed: Final[dict[str, WatchCache]] = {}
        for plurals, put in ((_ROLES, self.policy.put_role), (_BINDINGS, self.policy.put_binding)):
            for plural in plurals:
                resource = scheme.preferred(GroupResource(rbac.GROUP, plural))
                assert resource is not None, "the kinds of RBAC are built in"
                followed = self._followed[plural] = WatchCache(store, resource, clock)
                followed.subscribe(_forwarding(put))

    def followers(self) -> Iterator[tuple[str, WatchCache]]:
        """The tasks that must run beside the server, with names."""
        yield from self._followed.items()

    async def ready(self) -> None:
        """Wait until the first lists are complete."""
        for followed in self._followed.values():
            await followed.ready()

    async def catch_up(self, revision: int) -> None:
        """Wait until everything up to a revision is known. ServiceUnavailable if that fails."""
        behind = [one for one in self._followed.values() if one.revision < revision]
        if not all(await asyncio.gather(*(one.reach(revision) for one in behind))):
            raise errors.service_unavailable(STALE)


def _forwarding(put: Callable[[str, str, Object | None], None]) -> Listener:
    def tell(old: Object | None, new: Object | None) -> None:
        about = new if new is not None else old
        assert about is not None, "a change is of something"
        put(meta.namespace(about), meta.name(about), new)

    return tell
