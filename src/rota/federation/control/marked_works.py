"""Works that a loop makes for objects of its own, marked with an annotation that names the object."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Changed, Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds

#: Namespace and name of a Work.
Place: TypeAlias = tuple[str, str]


class MarkedWorks:
    """The Works with one annotation."""

    def __init__(self, client: Client, frame: Reconciler[Any], mark: str, changed: Changed) -> None:
        self._client: Final = client
        self._mark: Final = mark
        self._changed: Final = changed
        self._cache: Final = frame.follow(kinds.WORKS, self._noticed, indexers={mark: self._indexed}).cache

    def of(self, owner: str) -> dict[Place, Object]:
        """The Works of an owner."""
        return {(meta.namespace(work), meta.name(work)): work for work in self._cache.indexed(self._mark, owner)}

    async def keep(self, owner: str, wanted: Mapping[Place, dict[str, Any]]) -> dict[Place, Object]:
        """Delete, create and change Works until those of an owner are the wanted ones; the ones that were there."""
        present = self.of(owner)
        for place, work in present.items():
            if place not in wanted and not meta.is_deleting(work):
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(kinds.WORKS, place[1], namespace=place[0])
        for place, work in wanted.items():
            known = present.get(place)
            if known is None:
                # without its namespace, the cluster has just joined or leaves, and comes back with an event
                with contextlib.suppress(errors.AlreadyExists, errors.NotFound):
                    await self._client.create(kinds.WORKS, work)
            elif known.get("spec") != work["spec"] and not meta.is_deleting(known):
                await self._client.update(kinds.WORKS, {**known, "spec": work["spec"]})
        return present

    def _indexed(self, work: Object) -> Iterable[str]:
        owner = meta.annotations(work).get(self._mark)
        return (owner,) if owner else ()

    def _noticed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if self._mark in meta.annotations(new or old or {}):
            self._changed(key, old, new)
