"""Creates and prunes the ControllerRevisions of DaemonSets and StatefulSets, one for each template.

`controller_revisions` defines their form and order. A revision's name is derived from its template, so that a request
that is retried creates one revision.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rota.api import errors, meta
from rota.api.meta import Object
from rota.client.expectations import Expectations
from rota.client.informers.cache import Key
from rota.client.verbs import Client
from rota.controllers import controller_revisions
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.controller_revisions import History
from rota.kit import logs

log = logs.get(__name__)

REVISIONS: Final = ("apps", "v1", "controllerrevisions")


class HistoryKeeping:
    """Maintains the revisions of owners of one kind."""

    def __init__(self, client: Client, kind: OwnerKind, *, expectations: Expectations, label: str) -> None:
        """`expectations` are those of revisions; `label` is the label for the hash of a revision."""
        self._client: Final = client
        self._kind: Final = kind
        self._expectations: Final = expectations
        self._label: Final = label

    async def keep(self, owner: Object, revisions: Sequence[Object]) -> History | None:
        """Make the owner's template the newest of these revisions.

        Returns None if a foreign revision has the name with this hash: `collisionCount` in the owner's status is
        increased, which changes the hash.
        """
        known = controller_revisions.ordered(revisions)
        data = controller_revisions.recorded(owner)
        current = next((one for one in reversed(known) if one.get("data") == data), None)
        old = tuple(one for one in known if one is not current)
        newest = max(map(controller_revisions.number, old), default=0)
        if current is None:
            current = await self._make(owner, controller_revisions.made(owner, number=newest + 1, label=self._label))
        elif controller_revisions.number(current) <= newest:
            current = await self._renumber(owner, {**current, "revision": newest + 1})
        return None if current is None else History(current, old)

    async def prune(self, owner: Object, old: Sequence[Object], *, live: AbstractSet[str]) -> None:
        """Delete the oldest revisions beyond `revisionHistoryLimit`, except those whose name or hash is in `live`."""
        limit = owner["spec"].get("revisionHistoryLimit")
        alive = [one for one in old if not meta.is_deleting(one)]
        dispensable = [one for one in alive if not live & {meta.name(one), meta.labels(one).get(self._label, "")}]
        for one in dispensable[: max(len(dispensable) - (10 if limit is None else int(limit)), 0)]:
            key = Key(meta.namespace(one), meta.name(one))
            self._expectations.expect(meta.uid(owner), key, of=one, going=True)
            try:
                answer = await self._client.delete(REVISIONS, key.name, namespace=key.namespace, uid=meta.uid(one))
            except (errors.NotFound, errors.Conflict):
                self._expectations.drop(key)
            except BaseException:
                self._expectations.drop(key)
                raise
            else:
                self._expectations.confirm(key, answer)

    async def _make(self, owner: Object, wanted: Object) -> Object | None:
        key = Key(meta.namespace(wanted), meta.name(wanted))
        self._expectations.expect(meta.uid(owner), key)
        try:
            created = await self._client.create(REVISIONS, wanted)
        except errors.AlreadyExists:
            self._expectations.drop(key)
            found = await self._client.get(REVISIONS, key.name, namespace=key.namespace)
            is_own = (meta.controller_of(found) or {}).get("uid") == meta.uid(owner)
            if is_own and found.get("data") == wanted["data"]:
                return found
            await self._collide(owner)
            return None
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, created)
        return created

    async def _renumber(self, owner: Object, changed: Object) -> Object:
        key = Key(meta.namespace(changed), meta.name(changed))
        self._expectations.expect(meta.uid(owner), key, of=changed)
        try:
            updated = await self._client.update(REVISIONS, changed)
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, updated)
        return updated

    async def _collide(self, owner: Object) -> None:
        said = owner.get("status") or {}
        count = int(said.get("collisionCount") or 0) + 1
        log.info("hash collision", owner=meta.qualified_name(owner), collisions=count)
        changed = {**owner, "status": {**said, "collisionCount": count}}
        await self._client.update(self._kind.target, changed, subresource="status")
