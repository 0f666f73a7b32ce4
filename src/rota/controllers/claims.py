"""Which objects belong to an owner: those that its selector selects, and no others.

What bears no controller's name and is selected gets the owner's (adoption); what bears the owner's and is no longer
selected loses it (release). Every such write names the uid of its object, so that a namesake is left alone, and before
the first adoption the owner is read again: one that was deleted meanwhile adopts nothing. The rules are upstream's
(`pkg/controller/controller_ref_manager.go`, 1.36).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta
from rota.api.selectors import Selector
from rota.client.paths import Target
from rota.client.verbs import Client, Object, PatchType
from rota.kit import logs

log = logs.get(__name__)

BY_CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerKind:
    """The kind of a controller's owners, as references and events write it."""

    api_version: str
    kind: str
    target: Target

    def complete(self, obj: Mapping[str, Any]) -> Object:
        """An object with its apiVersion and kind, which those from lists lack."""
        return {**obj, "apiVersion": self.api_version, "kind": self.kind}

    def owner_of(self, obj: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The reference by which one of this kind controls an object, if one does."""
        found = meta.controller_of(obj) if obj is not None else None
        if found is None or found.get("kind") != self.kind:
            return None
        group = str(found.get("apiVersion", "")).rpartition("/")[0]
        return found if group == self.api_version.rpartition("/")[0] else None


def by_controller(obj: Mapping[str, Any]) -> Iterable[str]:
    """Files an object under its controller's uid; one without under its namespace (see `orphans`)."""
    found = meta.controller_of(obj)
    return (orphans(meta.namespace(obj)) if found is None else str(found.get("uid", "")),)


def orphans(namespace: str) -> str:
    """Where `by_controller` files those of a namespace that nobody controls; no uid looks like it."""
    return f"orphans/{namespace}"


class Claims:
    """Claims objects of one collection for owners of one kind."""

    def __init__(self, client: Client, target: Target, kind: OwnerKind, *, finalizer: str = "") -> None:
        """`finalizer` is one that adopted objects get and released ones lose."""
        self._client: Final = client
        self._target: Final = target
        self._kind: Final = kind
        self._finalizer: Final = finalizer

    async def claim(self, owner: Mapping[str, Any], selector: Selector, candidates: Iterable[Object]) -> list[Object]:
        """Those of the candidates that are the owner's, after adoptions and releases; an adopted one as it is now."""
        mine: list[Object] = []
        may_adopt: bool | None = None
        for one in candidates:
            reference = meta.controller_of(one)
            selected = selector.matches(meta.labels(one))
            if reference is not None:
                if reference.get("uid") != meta.uid(owner):
                    continue
                if selected:
                    mine.append(one)
                elif not meta.is_deleting(owner):
                    await self._release(owner, one)
            elif selected and not meta.is_deleting(owner) and not meta.is_deleting(one):
                if may_adopt is None:
                    may_adopt = await self._may_adopt(owner)
                if may_adopt and (adopted := await self._adopt(owner, one)) is not None:
                    mine.append(adopted)
        return mine

    async def _may_adopt(self, owner: Mapping[str, Any]) -> bool:
        try:
            fresh = await self._client.get(self._kind.target, meta.name(owner), namespace=meta.namespace(owner))
        except errors.NotFound:
            return False
        return meta.uid(fresh) == meta.uid(owner) and not meta.is_deleting(fresh)

    async def _adopt(self, owner: Mapping[str, Any], one: Object) -> Object | None:
        metadata: Object = {"uid": meta.uid(one), "ownerReferences": [meta.controller_reference(owner)]}
        if self._finalizer:
            metadata["finalizers"] = [self._finalizer]
        try:
            adopted = await self._patch(one, metadata)
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            return None  # gone, another of its name, or taken by somebody meanwhile
        log.info("adopted", owner=meta.qualified_name(owner), object=meta.name(one))
        return adopted

    async def _release(self, owner: Mapping[str, Any], one: Object) -> None:
        metadata: Object = {"uid": meta.uid(one), "ownerReferences": [{"$patch": "delete", "uid": meta.uid(owner)}]}
        if self._finalizer:
            metadata["$deleteFromPrimitiveList/finalizers"] = [self._finalizer]
        try:
            await self._patch(one, metadata)
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            return  # gone, another of its name, or without a reference to this owner
        log.info("released", owner=meta.qualified_name(owner), object=meta.name(one))

    async def _patch(self, one: Object, metadata: Object) -> Object:
        return await self._client.patch(
            self._target,
            meta.name(one),
            {"metadata": metadata},
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(one),
        )
