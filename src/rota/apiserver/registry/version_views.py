"""The versions of custom kinds at the store: the view in which a version is read, and the form in which it is written.

Most kinds have versions that differ in name only. Their view is the store itself, and what is written is what is read.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from rota.api.identifiers import GroupVersionResource
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.interfaces import Conversion
from rota.apiserver.registry.converted_store import ConvertedStore, KeptValues
from rota.store.store_interface import Store


class Forms(NamedTuple):
    """An object as it is stored, and as clients of a version read it: the same bytes, unless it is converted."""

    stored: bytes
    shown: bytes


class VersionViews:
    """The views of all versions."""

    def __init__(self, store: Store, conversion: Callable[[ResourceType], Conversion | None]) -> None:
        self._store: Final = store
        self._lookup: Final = conversion
        self._views: Final[dict[GroupVersionResource, ConvertedStore]] = {}
        self._kept: Final = KeptValues()

    def store_of(self, resource: ResourceType) -> Store:
        """The store, with the objects of this resource in its version."""
        conversion = self._conversion(resource)
        if conversion is None:
            return self._store
        known = self._views.get(resource.gvr)
        if known is None or known.conversion is not conversion:
            known = self._views[resource.gvr] = ConvertedStore(self._store, resource, conversion, self._kept)
        return known

    async def forms(self, resource: ResourceType, value: bytes) -> Forms:
        """How an object in the version of a resource is stored, and how it reads after that."""
        conversion = self._conversion(resource)
        if conversion is None or resource.api_version == conversion.storage_version:
            return Forms(value, value)
        (stored,) = await conversion.convert([stored_form.unpack(value)], conversion.storage_version)
        # a webhook that cannot convert it back is found out before anything is written
        (shown,) = await conversion.convert([stored], resource.api_version)
        return Forms(stored_form.encode(stored, resource), stored_form.encode(shown, resource, limited=False))

    async def is_outdated(self, resource: ResourceType, key: str) -> bool:
        """Whether an object is stored in a version that is no longer stored: a write without a change migrates it."""
        conversion = self._conversion(resource)
        wanted = conversion.storage_version if conversion is not None else resource.stored_as
        entry = await self._store.get(key) if wanted else None
        return entry is not None and not stored_form.is_in_version(entry.value, wanted)

    def _conversion(self, resource: ResourceType) -> Conversion | None:
        return self._lookup(resource) if resource.custom else None
