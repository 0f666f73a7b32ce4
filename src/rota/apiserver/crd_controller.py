"""The CRD controller: watches CustomResourceDefinitions, serves their kinds, and finalizes deleted ones.

Every server watches by itself and comes to the same state. Any of them may write the results (names are accepted, a
definition's objects are gone): the others find them written.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.api.users import ADMINISTRATOR
from rota.apiserver import stored_form
from rota.apiserver.crd import deletion, names, registration
from rota.apiserver.crd.kind_catalog import CustomKindCatalog
from rota.apiserver.interfaces import Attributes, DeleteOptions, Object, Stored
from rota.apiserver.registry.objects import ObjectRegistry
from rota.kit import logs
from rota.store import errors as store_errors
from rota.store.store_interface import Batch, Entry

log = logs.get(__name__)

DEFINITIONS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
#: Objects with finalizers take time; this is how often a terminating definition is checked.
_LOOK_EVERY_S: Final = 1.0


class CrdController:
    """Keeps a catalog in step with the store. `sync` once before serving, then `run`."""

    def __init__(self, registry: ObjectRegistry, catalog: CustomKindCatalog) -> None:
        self._registry: Final = registry
        self._catalog: Final = catalog
        self._resource: Final = registry.resource(DEFINITIONS)
        self._prefix: Final = stored_form.prefix(self._resource, None)
        #: Definitions that are being deleted, by key.
        self._going: dict[str, Stored] = {}

    async def sync(self) -> int:
        """Read all definitions; returns the revision."""
        page = await self._registry.store.list(self._prefix)
        present = {entry.key for entry in page.entries}
        for definition in self._catalog.definitions:
            key = f"{self._prefix}{definition['metadata']['name']}"
            if key not in present:
                self._forget(key)
        for entry in page.entries:
            await self._take(entry)
        return page.revision

    async def run(self) -> None:
        """Watch until the store is closed."""
        while True:
            revision = await self.sync()
            try:
                async with self._registry.store.watch(self._prefix, after=revision) as watch:
                    while True:
                        await self._next(watch.__anext__)
            except (store_errors.Expired, store_errors.SlowWatcher):
                continue
            except StopAsyncIteration:
                return

    async def _next(self, change: Callable[[], Awaitable[Batch]]) -> None:
        """Process the next changes; process terminating definitions while there are none."""
        try:
            batch = await self._registry.clock.wait_for(change(), _LOOK_EVERY_S) if self._going else await change()
        except TimeoutError:
            for stored in list(self._going.values()):
                await self._see_off(stored)
            return
        for event in batch.events:
            if event.value is None:
                self._forget(event.key)
            else:
                await self._take(Entry(event.key, event.value, event.revision, event.created))

    async def _take(self, entry: Entry) -> None:
        obj = stored_form.entry_object(entry, self._resource)
        stored = Stored(key=entry.key, object=obj, revision=entry.revision, created=entry.created)
        self._catalog.put(obj)
        if obj["metadata"].get("deletionTimestamp"):
            self._going[entry.key] = stored
            await self._see_off(stored)
            return
        now = self._registry.clock.now()
        taken = names.claims(obj, self._catalog.definitions, self._registry.scheme)
        if names.status(obj, taken, now=now) != obj.get("status"):
            await self._rewrite(stored, lambda live: {**live, "status": names.status(live, taken, now=now)})

    def _forget(self, key: str) -> None:
        self._going.pop(key, None)
        self._catalog.forget(key.removeprefix(self._prefix))

    async def _see_off(self, stored: Stored) -> None:
        """One step of a deletion."""
        now = self._registry.clock.now()
        try:
            left = await self._delete_objects(stored.object)
        except errors.ApiError as error:
            # other definitions, and the start of the server, must not wait for a webhook that is gone
            name = stored.object["metadata"]["name"]
            log.info("objects of a CustomResourceDefinition remain, trying again", definition=name, error=error.message)
            left = 1
        match deletion.next_step(stored.object, objects_left=left):
            case deletion.Step.DELETE_OBJECTS:
                await self._rewrite(stored, lambda live: deletion.terminating(live, now=now))
            case deletion.Step.FINISH:
                await self._rewrite(stored, lambda live: deletion.finished(live, now=now))
            case deletion.Step.NOTHING:
                self._going.pop(stored.key, None)
                if not stored.object["metadata"].get("finalizers"):
                    await self._remove(stored)

    async def _delete_objects(self, definition: Object) -> int:
        """Delete all objects of a kind; returns how many remain."""
        resource = self._registry.scheme.preferred(registration.resource_of(definition))
        if resource is None:
            return 0
        conversion = self._registry.kinds.conversion(resource)
        if conversion is not None:  # in the storage version no webhook is needed, which may be gone already
            resource = replace(resource, version=conversion.storage_version.rpartition("/")[2])
        left = 0
        for stored in await self._registry.list(resource):
            metadata = stored.object["metadata"]
            at = self._attributes(name=metadata["name"])
            at = replace(at, resource=resource, namespace=metadata.get("namespace", ""))
            try:
                written = await self._registry.remove(at, DeleteOptions())
            except errors.NotFound:
                continue
            left += not written.removed
        return left

    async def _remove(self, stored: Stored) -> None:
        """Remove a definition without finalizers."""
        metadata = stored.object["metadata"]
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            options = DeleteOptions(precondition_uid=metadata["uid"])
            await self._registry.remove(self._attributes(name=metadata["name"]), options)

    async def _rewrite(self, stored: Stored, change: Callable[[Object], Object]) -> None:
        """Write a definition's new state unless it is gone; it comes back through the watch."""
        at = self._attributes(name=stored.object["metadata"]["name"])
        try:
            if change(stored.object) != stored.object:
                await self._registry.rewrite(at, stored, change)
        except (errors.NotFound, errors.Conflict) as error:
            log.info(
                "a CustomResourceDefinition changed meanwhile, trying again", definition=at.name, error=error.message
            )

    def _attributes(self, *, name: str) -> Attributes:
        return Attributes(
            user=ADMINISTRATOR,
            verb="update",
            resource=self._resource,
            now=self._registry.clock.now(),
            name=name,
            field_manager="rota-apiserver",
        )
