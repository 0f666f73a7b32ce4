"""The common reconciler of controllers whose objects own other objects.

    self._reconciler = OwnedReconciler(client, KIND, self._sync, name="daemon sets", component="daemonset-controller")
    self._pods = self._reconciler.own(PODS)

An owner is reconciled when it changes, and when an object changes that it owns or might adopt. It is not reconciled
before the caches contain all writes of its awaited collections (`expectations`). After a conflict it is retried soon;
an owner that no longer exists is dropped. `sync` decides what an owner should own; it gets the owner and returns when
to reconcile again.
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

#: Retry after a conflicting write: the watch delivers the new state soon.
SOON_S: Final = 0.05

#: Other items of the queue besides owners.
T = TypeVar("T")
#: Reconciles an owner; returns seconds until the next time, None to wait for changes.
Sync: TypeAlias = Callable[[Object], Awaitable[float | None]]


class OwnedCollection:
    """The owned objects of one collection."""

    def __init__(self, family: OwnedObjects, expectations: Expectations, cache: Cache[Object]) -> None:
        self._family: Final = family
        #: Writes that the cache does not contain yet.
        self.expectations: Final = expectations
        #: All objects of the collection, whatever their owner.
        self.cache: Final = cache

    async def claim(self, owner: meta.Object, *, only: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """See `OwnedObjects.claim`."""
        return await self._family.claim(owner, only=only)

    def owned_by(self, owner: meta.Object) -> list[Object]:
        """See `OwnedObjects.owned_by`."""
        return self._family.owned_by(owner)

    def settled(self, owner: meta.Object) -> bool:
        """Whether the cache contains all writes for an owner."""
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
        """`component` is the source of events.

        For an owner that `is_over` no writes are awaited, and `left` is called, as for one that is gone. Changes of
        owned objects may be delayed by `delay_s`, to batch them. `beside` handles the other items of the queue.
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
        #: Expected writes of the owners themselves, for controllers that await them.
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
        """Let owners own objects of a collection; call before `run`.

        `awaited` collections delay an owner until all writes are in the cache. `also` is called with every change as
        well; for `finalizer` see `Claims`.
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
        """Watch a resource that owners depend on but do not own; call before `run`."""
        return self._frame.follow(target, changed).cache

    def look_at(self, what: Key | T) -> None:
        """Enqueue an owner, or another item for `beside`."""
        self._frame.queue.add(what)

    async def run(self) -> None:
        """Reconcile owners until cancelled."""
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
            return None  # gone, or the cache will show that it is gone
        except errors.Conflict:
            return SOON_S
