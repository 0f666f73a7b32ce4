"""The verbs of built-in kinds with Structs instead of dicts: `await typed.get(core_v1.Pod, "web-0", namespace="a")`.

A model names its kind, so no `ResourceType` is needed. Fields that a model does not have are lost, as with any typed
client; use a patch to change objects of a newer server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from rota.api import decoding, schemas
from rota.api.kinds import ResourceType
from rota.api.scheme import Scheme
from rota.client.verbs import EVERYTHING, PAGE_SIZE, Client, Object, PatchType, Selection

M = TypeVar("M", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedListing(Generic[M]):
    """All objects of a list, and the revision from which a watch continues it."""

    items: list[M]
    resource_version: str


class TypedClient:
    """Typed verbs over a `Client`."""

    def __init__(self, client: Client, scheme: Scheme) -> None:
        self.client: Final = client
        self._models: Final = {one.model: one for one in scheme if one.model is not None}

    def resource(self, model: type[M]) -> ResourceType:
        """The resource of a model."""
        name = f"{model.__module__.rpartition('.')[2]}.{model.__name__}"
        found = self._models.get(name)
        if found is None or schemas.struct_of(name) is not model:
            raise TypeError(f"{model.__name__} is not the model of any resource")
        return found

    async def get(self, model: type[M], name: str, *, namespace: str = "") -> M:
        """See `Client.get`."""
        resource = self.resource(model)
        return _read(model, await self.client.get(resource, name, namespace=namespace), resource)

    async def list(
        self, model: type[M], *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = PAGE_SIZE
    ) -> TypedListing[M]:
        """See `Client.list`."""
        resource = self.resource(model)
        found = await self.client.list(resource, namespace=namespace, selection=selection, limit=limit)
        return TypedListing(
            items=[_read(model, one, resource) for one in found.items], resource_version=found.resource_version
        )

    async def create(self, obj: M, *, namespace: str = "", dry_run: bool = False) -> M:
        """See `Client.create`."""
        resource = self.resource(type(obj))
        made = await self.client.create(resource, _written(obj, resource), namespace=namespace, dry_run=dry_run)
        return _read(type(obj), made, resource)

    async def update(self, obj: M, *, subresource: str = "", dry_run: bool = False) -> M:
        """See `Client.update`."""
        resource = self.resource(type(obj))
        plain = _written(obj, resource)
        updated = await self.client.update(resource, plain, subresource=subresource, dry_run=dry_run)
        return _read(type(obj), updated, resource)

    async def patch(
        self,
        model: type[M],
        name: str,
        patch: Any,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the word of the API
        namespace: str = "",
        subresource: str = "",
    ) -> M:
        """See `Client.patch`."""
        resource = self.resource(model)
        changed = await self.client.patch(
            resource, name, patch, type=type, namespace=namespace, subresource=subresource
        )
        return _read(model, changed, resource)

    async def delete(self, model: type[M], name: str, *, namespace: str = "", **options: Any) -> Object:
        """See `Client.delete`."""
        return await self.client.delete(self.resource(model), name, namespace=namespace, **options)


def _read(model: type[M], obj: Object, resource: ResourceType) -> M:
    found = decoding.typed_from_object(obj, resource)
    assert isinstance(found, model)
    return found


def _written(obj: msgspec.Struct, resource: ResourceType) -> Mapping[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    return {**plain, "apiVersion": resource.api_version, "kind": resource.kind}
