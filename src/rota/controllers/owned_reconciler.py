"""Owners of one kind and all that they own: which of them is looked at when, and what has to be known first.

    self._home = Household(client, KIND, self._sync, name="daemon sets", component="daemonset-controller", ...)
    self._pods = self._home.own(PODS)

An owner is looked at when it changes, and when something changes that is its own or might be. It is left alone until
the caches have shown what was written of its awaited holdings (`expectations`). Somebody else who wrote first means
another look a moment later; an owner that is not there any more means none. What an owner should own is the business of
`sync`, which gets it as it is and tells when to look again.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from rota.api import errors, meta
from rota.client.expectations import Expectations
from rota.client.informers.cache import Cache, Indexer, Key
from rota.client.paths import Target
from rota.client.reconciler import Changed, Reconciler
from rota.client.verbs import Client, Object
from rota.controllers.controller_ref_manager import OWNED, OWNERS, Claims, OwnedObjects, OwnerKind
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

#: Somebody else wrote first, and the news is on the way.
SOON_S: Final = 0.05

#: What is queued besides owners, where something is.
T = TypeVar("T")
#: Looks after an owner; in how many seconds to look again, None if that depends on news.
Sync: TypeAlias = Callable[[Object], Awaitable[float | None]]


class OwnedCollection:
    """What owners have of one collection."""

    def __init__(self, family: OwnedObjects, expectations: Expectations, cache: Cache[Object]) -> None:
        self._family: Final = family
        #: What was written of it and has not been seen.
        self.expectations: Final = expectations
        #: All of the collection, whoever has it.
        self.cache: Final = cache

    async def claim(self, owner: meta.Object, *, only: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """See `Family.claim`."""
        return await self._family.claim(owner, only=only)

    def owned_by(self, owner: meta.Object) -> list[Object]:
        """See `Family.owned_by`."""
        return self._family.owned_by(owner)

    def settled(self, owner: meta.Object) -> bool:
        """Whether the cache has all that was written for an owner."""
        return self.expectations.settled(meta.uid(owner))


class OwnedReconciler(Generic[T]):
    """Runs the controller of one kind of owners."""

    def __init__(
        self,
        client: Client,
        kind: OwnerKind,
        sync: Sync,
        *,
        name: str,
        component: str,
        clock: Clock,
        rng: Rng,
        workers: int = 5,
        metrics: Metrics | None = None,
        indexers: Mapping[str, Indexer[Object]] | None = None,
        is_over: Callable[[Object], bool] = lambda _: False,
        left: Callable[[Key, Object], object] = lambda *_: None,
        delay_s: Callable[[Key], float] = lambda _: 0.0,
        beside: Callable[[T], Awaitable[float | None]] | None = None,
    ) -> None:
        """`component` is who events are from.

        Of an owner that `is_over` nothing is awaited, and `left` is told, as of one that is gone. News of what is owned
        may wait `delay_s`, so that there is more of it. `beside` looks after what else is put into the queue.
        """
        self._client: Final = client
        self._kind: Final = kind
        self._sync: Final = sync
        self._clock: Final = clock
        self._is_over: Final = is_over
        self._left: Final = left
        self._delay_s: Final = delay_s
        self._beside: Final = beside
        self._frame: Final = Reconciler[Key | T](
            client, name, self._process, clock=clock, rng=rng, workers=workers, metrics=metrics
        )
        self.recorder: Final = self._frame.report_as(component)
        self._families: Final[list[OwnedObjects]] = []
        self._expectations: Final[list[Expectations]] = []
        self._awaited: Final[list[Expectations]] = []
        #: Of writes on owners themselves, for those who await them.
        self.own_writes: Final = Expectations(clock)
        self._owners: Final = self._frame.follow(
            kind.target, self._owner_changed, indexers={**OWNERS, **(indexers or {})}
        )

    @property
    def owners(self) -> Cache[Object]:
        """All owners."""
        return self._owners.cache

    def own(
        self, target: Target, *, awaited: bool = True, finalizer: str = "", also: Changed | None = None
    ) -> OwnedCollection:
        """Have owners own objects of a collection; before the controller runs.

        `awaited` holdings keep an owner from being looked at until all that was written is seen. `also` is told every
        change besides; for `finalizer` see `Claims`.
        """
        expectations = Expectations(self._clock)

        def changed(key: Key, old: Object | None, new: Object | None) -> None:
            expectations.observe(key, old, new)
            for owner in family.concerned(key, old, new):
                self._frame.queue.add_after(owner, self._delay_s(owner))
            if also is not None:
                also(key, old, new)

        informer = self._frame.follow(target, changed, indexers=OWNED)
        claims = Claims(self._client, target, self._kind, expectations=expectations, finalizer=finalizer)
        family = OwnedObjects(claims, self._kind, owners=self._owners, owned=informer)
        self._families.append(family)
        self._expectations.append(expectations)
        if awaited:
            self._awaited.append(expectations)
        return OwnedCollection(family, expectations, informer.cache)

    def follow(self, target: Target, changed: Changed) -> Cache[Object]:
        """Follow what owners do not own but go by; before the controller runs."""
        return self._frame.follow(target, changed).cache

    def look_at(self, what: Key | T) -> None:
        """Have an owner looked at, or something else that is looked after beside them."""
        self._frame.queue.add(what)

    async def run(self) -> None:
        """Look after owners until cancelled."""
        await self._frame.run()

    def _owner_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.own_writes.observe(key, old, new)
        for family in self._families:
            family.owner_changed(key, old, new)
        if new is not None and not self._is_over(new):
            self._frame.queue.add(key)
            return
        last = new or old or {}
        for expectations in (*self._expectations, self.own_writes):
            expectations.forget(meta.uid(last))
        self._left(key, last)

    async def _process(self, what: Key | T) -> float | None:
        if not isinstance(what, Key):
            return None if self._beside is None else await self._beside(what)
        found = self._owners.cache.get(what.name, what.namespace)
        if found is None:
            return None
        owner = self._kind.complete(found)
        for expectations in (*self._awaited, self.own_writes):
            if not expectations.settled(meta.uid(owner)):
                return expectations.patience_s(meta.uid(owner))
        try:
            return await self._sync(owner)
        except errors.NotFound:
            return None  # gone, or soon to be seen as gone
        except errors.Conflict:
            return SOON_S
