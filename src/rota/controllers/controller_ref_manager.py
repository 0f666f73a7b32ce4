"""Adopts and releases objects by their owner's selector.

A selected object without a controller gets the owner's reference (adoption). An owned object that is no longer selected
loses it (release). Every write carries the uid of the object, so that another object of the same name is not changed.
Before the first adoption the owner is read again: a deleted owner adopts nothing. The rules are upstream's
(`pkg/controller/controller_ref_manager.go`, 1.36), except that orphans are examined only when a selected orphan or the
owner has changed, because there may be thousands of unrelated orphans.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta, selectors
from rota.api.selectors import Selector
from rota.client.expectations import Expectations
from rota.client.informers.cache import Key, by_namespace
from rota.client.informers.informer import Informer
from rota.client.paths import Target
from rota.client.verbs import Client, Object, PatchType
from rota.kit import logs

log = logs.get(__name__)

BY_CONTROLLER: Final = "controller"
BY_NAMESPACE: Final = "namespace"
#: Indexes that the informers of owners and of owned objects need.
OWNERS: Final = {BY_NAMESPACE: by_namespace}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerKind:
    """The kind of a controller's owners, as references and events contain it."""

    api_version: str
    kind: str
    target: Target

    def complete(self, obj: Mapping[str, Any]) -> Object:
        """An object with its apiVersion and kind, which items of lists lack."""
        return {**obj, "apiVersion": self.api_version, "kind": self.kind}

    def owner_of(self, obj: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The reference of an object to its controller, if that is of this kind."""
        found = meta.controller_of(obj) if obj is not None else None
        if found is None or found.get("kind") != self.kind:
            return None
        group = str(found.get("apiVersion", "")).rpartition("/")[0]
        return found if group == self.api_version.rpartition("/")[0] else None


def by_controller(obj: Mapping[str, Any]) -> Iterable[str]:
    """Index key: the controller's uid, or the namespace for an object without a controller (see `orphans`)."""
    found = meta.controller_of(obj)
    return (orphans(meta.namespace(obj)) if found is None else str(found.get("uid", "")),)


def orphans(namespace: str) -> str:
    """The key under which `by_controller` indexes the orphans of a namespace; no uid has this form."""
    return f"orphans/{namespace}"


OWNED: Final = {BY_CONTROLLER: by_controller}


class Claims:
    """Adopts and releases objects of one collection for owners of one kind."""

    def __init__(
        self, client: Client, target: Target, kind: OwnerKind, *, expectations: Expectations, finalizer: str = ""
    ) -> None:
        """Adoptions are recorded in the expectations; `finalizer` is added on adoption and removed on release."""
        self._client: Final = client
        self._expectations: Final = expectations
        self._target: Final = target
        self._kind: Final = kind
        self._finalizer: Final = finalizer

    async def claim(self, owner: Mapping[str, Any], selector: Selector, candidates: Iterable[Object]) -> list[Object]:
        """The candidates that belong to the owner, after adoptions and releases; adopted ones in their new state."""
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
        key = Key(meta.namespace(one), meta.name(one))
        self._expectations.expect(meta.uid(owner), key, of=one)
        try:
            adopted = await self._patch(one, metadata)
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            self._expectations.drop(key)
            return None  # gone, replaced, or adopted by another controller
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, adopted)
        log.info("adopted", owner=meta.qualified_name(owner), object=meta.name(one))
        return adopted

    async def _release(self, owner: Mapping[str, Any], one: Object) -> None:
        metadata: Object = {"uid": meta.uid(one), "ownerReferences": [{"$patch": "delete", "uid": meta.uid(owner)}]}
        if self._finalizer:
            metadata["$deleteFromPrimitiveList/finalizers"] = [self._finalizer]
        try:
            await self._patch(one, metadata)
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            return  # gone, replaced, or already without this reference
        log.info("released", owner=meta.qualified_name(owner), object=meta.name(one))

    async def _patch(self, one: Object, metadata: Object) -> Object:
        return await self._client.patch(
            self._target,
            meta.name(one),
            {"metadata": metadata},
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(one),
        )


class OwnedObjects:
    """Maps changes of owners and owned objects to the owners that must be reconciled."""

    def __init__(self, claims: Claims, kind: OwnerKind, *, owners: Informer[Object], owned: Informer[Object]) -> None:
        """The informers must have the indexes `OWNERS` and `OWNED`."""
        self._claims: Final = claims
        self._kind: Final = kind
        self._owners: Final = owners
        self._owned: Final = owned
        #: Owners that may have orphans to adopt.
        self._seekers: Final[set[Key]] = set()

    def owner_changed(self, key: Key, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        """An owner was added, updated or deleted."""
        if new is None:
            self._seekers.discard(key)
        elif old is None or old["spec"].get("selector") != new["spec"].get("selector"):
            self._seekers.add(key)

    def concerned(self, key: Key, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> set[Key]:
        """The owners that a change of an owned object or of an orphan affects."""
        references = [self._kind.owner_of(one) for one in (old, new)]
        found = {Key(key.namespace, one["name"]) for one in references if one is not None}
        if new is not None and meta.controller_of(new) is None and _is_other(old, new):
            for owner in self._owners.cache.indexed(BY_NAMESPACE, key.namespace):
                wanted = owner["spec"].get("selector")  # kinds without one do not adopt
                if wanted is not None and selectors.from_object(wanted).matches(meta.labels(new)):
                    self._seekers.add(Key(key.namespace, meta.name(owner)))
                    found.add(Key(key.namespace, meta.name(owner)))
        return found

    def owned_by(self, owner: Mapping[str, Any]) -> list[Object]:
        """The objects with a reference to an owner."""
        return self._owned.cache.indexed(BY_CONTROLLER, meta.uid(owner))

    async def claim(self, owner: Mapping[str, Any], *, only: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """The owner's objects (see `Claims.claim`) among those that pass `only`."""
        key = Key(meta.namespace(owner), meta.name(owner))
        candidates = self.owned_by(owner)
        seeks = key in self._seekers
        if seeks:
            self._seekers.discard(key)
            candidates += self._owned.cache.indexed(BY_CONTROLLER, orphans(key.namespace))
        selector = selectors.from_object(owner["spec"]["selector"])
        try:
            return await self._claims.claim(owner, selector, filter(only, candidates))
        except BaseException:
            if seeks:
                self._seekers.add(key)
            raise


def _is_other(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    """Whether a change of an orphan may make other owners select it."""
    return old is None or meta.labels(old) != meta.labels(new) or meta.controller_of(old) is not None
