"""The current state of the objects that tokens refer to."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.api.scheme import Scheme
from rota.apiserver import stored_form
from rota.apiserver.interfaces import Object
from rota.store.store_interface import Store


class TokenSubjects:
    """Reads objects from the store: once per token and ten seconds, so a cache would not make it faster."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store: Final = store
        self._scheme: Final = scheme

    async def find(self, which: GroupResource, namespace: str, name: str) -> Object | None:
        """One object, if it exists; the namespace is empty for cluster-scoped kinds."""
        resource = self._scheme.preferred(which)
        assert resource is not None, f"{which} is built in"
        try:
            key = stored_form.key(resource, namespace, name)
        except ValueError:  # no object can have such a name
            return None
        entry = await self._store.get(key)
        return None if entry is None else stored_form.entry_object(entry, resource)
