"""Bindings of dependencies: what a resource needs goes to the clusters of that resource, and leaves with it."""

import contextlib
import uuid
from typing import Any, Final

from rota.api import errors, meta, selectors
from rota.client.informers.cache import Cache, Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import dependencies, kinds
from rota.federation.customization.interpreter import Interpreter
from rota.federation.customization.operations import CannotInterpret
from rota.federation.member import connections
from rota.federation.member.served_kinds import Kind, NotServed, Types
from rota.federation.works.manifests import BINDING_ID
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_AGAIN_S: Final = 10.0


class DependencyLoop:
    """Reconciles a binding that propagates its dependencies when it or one of them changes."""

    def __init__(self, client: Client, types: Types, interpreter: Interpreter, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._types: Final = types
        self._interpreter: Final = interpreter
        self._frame: Final = Reconciler[Key](
            client, "dependencies", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, self._binding_changed).cache
        #: Kinds that bindings depend on.
        self._followed: Final[dict[Kind, Cache[Object]]] = {}
        #: Bindings that need objects of a kind and namespace.
        self._owners: Final[dict[tuple[Kind, str], set[Key]]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        binding = new or old or {}
        spec: Object = binding.get("spec") or {}
        before: Object = (old or {}).get("spec") or {}
        if spec.get("propagateDeps") or before.get("propagateDeps"):
            self._frame.queue.add(key)
        # Bindings that were attached before a restart lead to owners that have gone meanwhile.
        for one in spec.get("requiredBy") or ():
            self._frame.queue.add(Key(one.get("namespace") or "", one.get("name") or ""))

    async def _process(self, key: Key) -> float | None:
        owner = self._bindings.get(key.name, key.namespace)
        needed: list[Object] = []
        again: float | None = None
        if owner is not None and not meta.is_deleting(owner) and (owner.get("spec") or {}).get("propagateDeps"):
            try:
                needed, again = await self._needed(key, owner)
            except CannotInterpret as error:
                log.warning("dependencies cannot be read", binding=meta.qualified_name(owner), error=str(error))
                return _AGAIN_S
        known = list(self._bindings.values())
        wanted = set()
        for resource in needed:
            assert owner is not None
            wanted.add(meta.uid(resource))
            await self._attach(owner, resource, known)
        await self._detach(key, owner, wanted, known)
        return again

    async def _needed(self, key: Key, owner: Object) -> tuple[list[Object], float | None]:
        """The objects that exist; others are waited for, by following their kind."""
        reference: Object = (owner.get("spec") or {}).get("resource") or {}
        try:
            target = await self._types.of((reference.get("apiVersion") or "", reference.get("kind") or ""))
            template = await self._client.get(target, reference.get("name") or "", namespace=key.namespace)
        except (errors.NotFound, NotServed):
            return [], None
        found, again = [], None
        for one in await self._interpreter.dependencies(template):
            kind = (one.get("apiVersion") or "", one.get("kind") or "")
            namespace = one.get("namespace") or key.namespace
            try:
                dependent = await self._types.of(kind)
            except NotServed as error:
                log.warning("a dependency is not served", binding=meta.qualified_name(owner), error=str(error))
                again = _AGAIN_S
                continue
            self._follow(kind, dependent)
            self._owners.setdefault((kind, namespace), set()).add(key)
            found += await self._read(dependent, namespace, one)
        return [one for one in found if not meta.is_deleting(one)], again

    async def _read(self, target: Any, namespace: str, reference: Object) -> list[Object]:
        if reference.get("name"):
            with contextlib.suppress(errors.NotFound):
                return [await self._client.get(target, reference["name"], namespace=namespace)]
            return []
        selector = selectors.from_object(reference.get("labelSelector") or {})
        listed = await self._client.list(target, namespace=namespace)
        return [one for one in listed.items if selector.matches(meta.labels(one))]

    def _follow(self, kind: Kind, target: Any) -> None:
        if kind in self._followed:
            return

        def changed(key: Key, old: Object | None, new: Object | None) -> None:
            for owner in self._owners.get((kind, key.namespace), ()):
                self._frame.queue.add(owner)

        self._followed[kind] = self._frame.follow(target, changed).cache

    async def _attach(self, owner: Object, resource: Object, known: list[Object]) -> None:
        name = meta.name(dependencies.attached(owner, resource, None, known))
        namespace = meta.namespace(owner)
        try:
            present: Object | None = await self._client.get(kinds.BINDINGS, name, namespace=namespace)
        except errors.NotFound:
            present = None
        wanted = dependencies.attached(owner, resource, present, known)
        if present is None:
            wanted["metadata"]["labels"] = {**meta.labels(wanted), BINDING_ID: str(uuid.uuid4())}
            await self._client.create(kinds.BINDINGS, wanted)
        elif wanted["spec"] != present.get("spec") or meta.labels(wanted) != meta.labels(present):
            await self._client.update(kinds.BINDINGS, wanted)

    async def _detach(self, key: Key, owner: Object | None, wanted: set[str], known: list[Object]) -> None:
        """Take the owner's clusters out of bindings that it needs no longer."""
        stand_in: Object = owner or {"metadata": {"namespace": key.namespace, "name": key.name}}
        label = dependencies.label_key(stand_in)
        for attached in known:
            needs = [
                (one.get("namespace") or "", one.get("name") or "")
                for one in (attached.get("spec") or {}).get("requiredBy") or ()
            ]
            if label not in meta.labels(attached) and (key.namespace, key.name) not in needs:
                continue
            if ((attached.get("spec") or {}).get("resource") or {}).get("uid") in wanted:
                continue
            changed = dependencies.detached(stand_in, attached, [one for one in known if one is not attached])
            with contextlib.suppress(errors.NotFound, errors.Conflict):  # a newer version comes back by itself
                if not changed["spec"]["requiredBy"] and changed["spec"].get("placement") is None:
                    await self._client.delete(kinds.BINDINGS, meta.name(attached), namespace=key.namespace)
                else:
                    await self._client.update(kinds.BINDINGS, changed)
