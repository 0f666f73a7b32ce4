"""The generic verbs on objects: read, create, update, delete, as transactions on the store.

Every write runs in the order that `interfaces` describes, and in one transaction with the revision that it was computed
from as a precondition. A write that loses a race starts over from the current state, as often as the kind of write
allows. A dry run does everything but the commit.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from rota.api import errors, fields, keys, names
from rota.api.identifiers import GroupKind, GroupResource, parse_api_version
from rota.api.kinds import ResourceType
from rota.api.patches import json_values, versions
from rota.api.scheme import Scheme
from rota.apiserver import stored_form
from rota.apiserver.encryption.envelope import Unopenable
from rota.apiserver.interfaces import (
    AdmissionFingerprint,
    Attributes,
    Change,
    Damaged,
    DeleteOptions,
    Kinds,
    Object,
    Registry,
    Stored,
    TransactionExtras,
)
from rota.apiserver.registry import deletion, managed_fields, system_fields, writes
from rota.apiserver.registry.create_templates import CreateTemplate, CreateTemplateCache
from rota.apiserver.registry.leader_fencing import LeaderFencing
from rota.apiserver.registry.status_templates import StatusTemplateCache
from rota.apiserver.registry.version_views import Forms, VersionViews
from rota.kit import logs, offload
from rota.kit.clock import Clock
from rota.store.store_interface import (
    Committed,
    Conflict,
    Delete,
    Entry,
    Outcome,
    Precondition,
    Put,
    Refused,
    Store,
    Transaction,
)

log = logs.get(__name__)

#: How often a write starts over after a conflict, or a name is drawn for a `generateName`.
_TRIES: Final = 8
#: How often a write starts over when only a precondition of admission changed: a quota that many writes charge, a busy
#: node.
_CONTENDED: Final = 100


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write, as an object and as the stored bytes."""

    object: Object
    value: bytes
    revision: int
    created: bool = False
    removed: bool = False


class WrittenBytes(NamedTuple):
    """The result of a write without a decoded object."""

    value: bytes
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """How an update computes the new object from the live one."""

    #: The new object, complete and in the shape of its kind, as a copy; None stands for an object to be created.
    make: Callable[[Object | None], Object]
    #: Whether `make` keeps managedFields itself, as server-side apply does.
    keeps_managed_fields: bool = False
    #: Whether a missing object is created.
    creates: bool = False
    #: The size of the input of `make`, besides the live object.
    size_bytes: int = 0


class ObjectRegistry:
    """Implements `interfaces.Registry`, and the writing verbs."""

    def __init__(
        self,
        store: Store,
        *,
        scheme: Scheme,
        kinds: Callable[[Registry], Kinds],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`kinds` gets the registry, since many rules read other objects."""
        self.store: Final = store
        self._terms: Final = LeaderFencing(store)
        self.scheme: Final = scheme
        self.clock: Final = clock
        self._rng: Final = rng
        self.kinds: Final = kinds(self)
        self.create_templates: Final = CreateTemplateCache()
        self.status_templates: Final = StatusTemplateCache()
        self._views: Final = VersionViews(store, self.kinds.conversion)

    def resource(self, group_resource: GroupResource, /) -> ResourceType:
        """See `Registry.resource`."""
        found = self.scheme.preferred(group_resource)
        if found is None:
            raise errors.NotFound(f"there is no resource {group_resource}")
        return found

    def encode(self, obj: Object, /) -> bytes:
        """See `Registry.encode`."""
        version = parse_api_version(obj["apiVersion"])
        assert version is not None, "objects in the server have a valid apiVersion"
        resource = self.scheme.by_group_kind(GroupKind(version.group, obj["kind"]))
        assert resource is not None, "only kinds of the scheme are stored"
        return stored_form.encode(obj, resource)

    def store_of(self, resource: ResourceType) -> Store:
        """The store, with the objects of this resource in its version."""
        return self._views.store_of(resource)

    def versions(self, at: Attributes) -> versions.Versions:
        """The data for merging objects of this kind; they raise `managed_fields.Unconverted`."""
        by_webhook = at.resource.custom and self.kinds.conversion(at.resource) is not None
        converted = at.converted if by_webhook else None
        return managed_fields.versions_of(at.resource, self.scheme, self.kinds.custom_schema, converted)

    def spread(self, most: float) -> float:
        """A random number from 0 to `most`, so that things that begin together do not end together."""
        return self._rng.uniform(0, most)

    async def find(self, resource: ResourceType, namespace: str, name: str, /) -> Stored | None:
        """See `Registry.find`."""
        entry = await self.store_of(resource).get(stored_form.key(resource, namespace, name))
        return None if entry is None else _stored(entry, resource)

    async def read(self, resource: ResourceType, namespace: str, name: str, /) -> Stored:
        """See `Registry.read`."""
        found = await self.find(resource, namespace, name)
        if found is None:
            raise errors.not_found(resource.group_resource, name)
        return found

    async def list(self, resource: ResourceType, namespace: str | None = None, /) -> Sequence[Stored]:
        """See `Registry.list`."""
        page = await self.store_of(resource).list(stored_form.prefix(resource, namespace))
        found = []
        for entry in page.entries:
            try:
                found.append(_stored(entry, resource))
            except Damaged:
                stored_form.leave_out(entry.key, entry.revision)
        return found

    async def commit(self, at: Attributes, transaction: Transaction, /) -> Outcome:
        """See `Registry.commit`."""
        if not at.dry_run:
            outcome = await self._commit(at, transaction)
            copy = self.kinds.copies.get(at.resource.group_resource)
            if copy is not None and isinstance(outcome, Committed):
                await copy.reach(outcome.revision)
            return outcome
        conflicts = []
        for guard in transaction.guards:
            entry = await self.store.get(guard.key)
            if not guard.holds(entry):
                conflicts.append(Conflict(guard, entry))
        return Refused(tuple(conflicts)) if conflicts else Committed((await self.store.revision_range()).revision)

    async def _commit(self, at: Attributes, transaction: Transaction) -> Outcome:
        if at.fence is None:
            return await self.store.commit(transaction)
        return await self._terms.commit(at.fence, transaction)

    async def create(
        self, at: Attributes, obj: Object, *, keeps_managed_fields: bool = False, size_bytes: int = 0
    ) -> Written:
        """Store a new object in the shape of its kind; `obj` may be changed.

        `size_bytes` is the size of the request body.
        """
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        prefix = metadata.get("generateName") if not metadata.get("name") else None
        if prefix:
            at = replace(at, generated_name=True)
        name = metadata.get("name", "")
        taken = 0
        spare = stored_form.pack(obj)
        for attempt in range(_CONTENDED):
            new = stored_form.unpack(spare) if attempt else obj
            if prefix:
                name = new["metadata"]["name"] = names.generate(prefix, self._rng)
            system_fields.fill_new(new, at, uid=self._uid())
            written = await self._create_once(
                at, new, keeps_managed_fields=keeps_managed_fields, size_bytes=max(size_bytes, len(spare))
            )
            if isinstance(written, Written):
                return written
            if writes.lost(written, self._key(at, name)):
                if not prefix:
                    raise _taken(at.resource, name, written)
                taken += 1
                if taken == _TRIES:
                    break
            at = replace(at, fresh=True)
        if prefix:
            raise errors.generate_name_conflict(at.resource.group_resource, name, retry_after_seconds=1)
        raise errors.conflict(at.resource.group_resource, name)

    async def create_alike(
        self, at: Attributes, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint
    ) -> WrittenBytes | None:
        """Store a new object from a template; None if there is none."""
        value = self.fill_template(create_template, admission_fingerprint, now=at.now)
        if value is None:
            return None
        key = self._key(at, create_template.name.decode())
        transaction = Transaction((Put(key, value),), (Precondition(key, revision=0), *admission_fingerprint.guards))
        outcome = await self._commit(at, transaction)
        # the usual path finds the reason again, and has the messages
        return WrittenBytes(value, outcome.revision) if isinstance(outcome, Committed) else None

    def fill_template(
        self, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, *, now: float
    ) -> bytes | None:
        """The bytes of such an object, for a caller that stores many in one transaction."""
        return self.create_templates.fill_template(create_template, admission_fingerprint, uid=self._uid(), now=now)

    async def update(self, at: Attributes, edit: Edit) -> Written:
        """Change the object that `at` names."""
        stored = await self.find(at.resource, at.namespace, at.name)
        for _ in range(_TRIES):
            if stored is None:
                if not edit.creates:
                    raise errors.not_found(at.resource.group_resource, at.name)
                return await self._create_by_update(at, edit)
            written = await self._update_once(at, edit, stored)
            if isinstance(written, Written):
                return written
            stored = await self.find(at.resource, at.namespace, at.name)
        raise errors.conflict(at.resource.group_resource, at.name)

    async def update_from(self, at: Attributes, edit: Edit, entry: Entry) -> Written | None:
        """Change the object that `at` names if it still is this entry; None after a conflict."""
        return await self._update_once(at, edit, _stored(entry, at.resource))

    async def rewrite(self, at: Attributes, stored: Stored, change: Change, /) -> Object:
        """See `Registry.rewrite`."""
        resource = self._resource_of(stored)
        current: Stored | None = stored
        for _ in range(_TRIES):
            if current is None or current.created != stored.created:
                raise errors.not_found(resource.group_resource, stored.object["metadata"]["name"])
            new = change(json_values.copy(current.object))
            guard = Precondition(stored.key, revision=current.revision)
            form = await self._views.forms(resource, stored_form.encode(new, resource))
            outcome = await self.commit(at, Transaction((Put(stored.key, form.stored),), (guard,)))
            if isinstance(outcome, Committed):
                new["metadata"]["resourceVersion"] = str(current.revision if at.dry_run else outcome.revision)
                return new
            entry = await self.store_of(resource).get(stored.key)
            current = None if entry is None else _stored(entry, resource)
        raise errors.conflict(resource.group_resource, stored.object["metadata"]["name"])

    async def delete(self, at: Attributes, options: DeleteOptions, /) -> Object:
        """See `Registry.delete`."""
        return (await self.remove(at, options)).object

    async def remove(self, at: Attributes, options: DeleteOptions) -> Written:
        """Delete the object that `at` names, or mark it for deletion; returns which."""
        deletion.check_options(options)
        for _ in range(_TRIES):
            try:
                stored = await self.read(at.resource, at.namespace, at.name)
            except (Damaged, Unopenable) as problem:
                return await self._remove_damaged(at, problem)
            deletion.check_preconditions(stored.object, options, at)
            extras = await self._admit(at, None, stored.object)
            plan = deletion.plan(json_values.copy(stored.object), options, at)
            # an object that was stored without a size limit must be deletable
            value = stored_form.encode(plan.object, at.resource, limited=False)
            removed = plan.step is deletion.Step.REMOVE
            if plan.step is deletion.Step.NOTHING or (plan.object == stored.object and not removed):
                return Written(stored.object, value, stored.revision)
            form = Forms(value, value) if removed else await self._views.forms(at.resource, value)
            write = Delete(stored.key) if removed else Put(stored.key, form.stored)
            guard = Precondition(stored.key, revision=stored.revision)
            outcome = await self.commit(at, writes.transaction(write, guard, extras))
            if isinstance(outcome, Committed):
                revision = stored.revision if at.dry_run else outcome.revision
                plan.object["metadata"]["resourceVersion"] = str(revision)
                return self._written(at, plan.object, form, revision, removed=removed)
        raise errors.conflict(at.resource.group_resource, at.name)

    async def _remove_damaged(self, at: Attributes, problem: Exception) -> Written:
        """Delete a value that cannot be decoded: its finalizers and its owner are lost."""
        key = self._key(at, at.name)
        log.warning("a damaged object is deleted", key=key, user=at.user.name, problem=str(problem))
        outcome = await self.commit(at, Transaction((Delete(key),), ()))
        if isinstance(outcome, Refused):
            raise errors.conflict(at.resource.group_resource, at.name)
        metadata = {"name": at.name} | ({"namespace": at.namespace} if at.namespace else {})
        left = {"apiVersion": at.resource.api_version, "kind": at.resource.kind, "metadata": metadata}
        return Written(left, b"", outcome.revision, removed=True)

    async def _create_once(
        self, at: Attributes, new: Object, *, keeps_managed_fields: bool, size_bytes: int
    ) -> Written | Refused:
        strategy, large = self.kinds.strategy(at.resource), size_bytes > offload.INLINE_BYTES

        def complete() -> Object:
            strategy.default(new)
            if large:  # before more work is done on an object that cannot be stored
                stored_form.encode(new, at.resource)
            # no manager owns what the server adds from here on: an apply without it must not remove it
            return new if keeps_managed_fields else managed_fields.record(None, new, at, self.versions(at))

        def check() -> None:
            strategy.prepare_create(new, at)
            _refuse_invalid(at, new, strategy.validate_create(new, at))

        new = await self._with_conversions(at, complete, size_bytes)
        extras = await self._admit(at, new, None)
        await offload.run(check, size_bytes)
        await self._vet(at, new, None)
        form = await self._views.forms(at.resource, stored_form.encode(new, at.resource))
        key = self._key(at, new["metadata"]["name"])
        outcome = await self.commit(
            at, writes.transaction(Put(key, form.stored), Precondition(key, revision=0), extras)
        )
        if isinstance(outcome, Refused):
            return outcome
        if not at.dry_run:
            new["metadata"]["resourceVersion"] = str(outcome.revision)
        return self._written(at, new, form, 0 if at.dry_run else outcome.revision, created=True)

    async def _create_by_update(self, at: Attributes, edit: Edit) -> Written:
        new = await self._with_conversions(at, lambda: edit.make(None), edit.size_bytes)
        uid = new["metadata"].get("uid")
        if uid:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise errors.conflict(at.resource.group_resource, at.name, why)
        if new["metadata"].pop("resourceVersion", "") not in {"", "0"}:
            raise errors.not_found(at.resource.group_resource, at.name)
        return await self.create(at, new, keeps_managed_fields=edit.keeps_managed_fields, size_bytes=edit.size_bytes)

    async def _update_once(self, at: Attributes, edit: Edit, stored: Stored) -> Written | None:
        """One attempt; None after a conflict."""
        live, strategy = stored.object, self.kinds.strategy(at.resource)
        size_bytes = max(edit.size_bytes, stored.size_bytes)

        def change() -> Object:
            new = edit.make(live)
            system_fields.check_update(new, live, at)
            system_fields.carry_over(new, live)
            if not at.subresource:
                strategy.default(new)
            elif at.subresource == "status":
                strategy.default_status(new)
            if size_bytes > offload.INLINE_BYTES:  # before more work is done on an object that cannot be stored
                stored_form.encode(new, at.resource)
            return new if edit.keeps_managed_fields else managed_fields.record(live, new, at, self.versions(at))

        new = await self._with_conversions(at, change, size_bytes)
        extras = await self._admit(at, new, live)
        # a projection shows part of the object, which changes by the rules of the whole
        inside = replace(at, subresource="") if at.subresource in self.kinds.projections else at

        def check() -> None:
            strategy.prepare_update(new, live, inside)
            _refuse_invalid(at, new, strategy.validate_update(new, live, inside))

        await offload.run(check, size_bytes)
        new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        await self._vet(at, new, live)
        managed_fields.keep_times(new, live)
        value = stored_form.encode(new, at.resource)
        finished = deletion.is_finished(new, live, at)
        if new == live and not finished and not await self._views.is_outdated(at.resource, stored.key):
            return Written(live, value, stored.revision)
        guard = Precondition(stored.key, revision=stored.revision)
        form = Forms(value, value) if finished else await self._views.forms(at.resource, value)
        heartbeat = writes.is_heartbeat(new, live, at)
        write = Delete(stored.key) if finished else Put(stored.key, form.stored, heartbeat=heartbeat)
        outcome = await self.commit(at, writes.transaction(write, guard, extras))
        if isinstance(outcome, Refused):
            return None
        revision = stored.revision if at.dry_run else outcome.revision
        new["metadata"]["resourceVersion"] = str(revision)
        return self._written(at, new, form, revision, removed=finished)

    async def _with_conversions(self, at: Attributes, work: Callable[[], Object], size_bytes: int) -> Object:
        """The result of work that may need objects in other versions: those are converted, and it starts over."""
        for _ in range(_CONTENDED):
            try:
                return await offload.run(work, size_bytes)
            except managed_fields.Unconverted as needed:
                conversion = self.kinds.conversion(at.resource)
                if conversion is None:  # the definition has changed meanwhile
                    break
                (converted,) = await conversion.convert([needed.object], needed.api_version)
                at.converted[needed.key] = converted
        raise errors.conflict(at.resource.group_resource, at.name)

    def _written(
        self,
        at: Attributes,
        obj: Object,
        form: Forms,
        revision: int,
        *,
        created: bool = False,
        removed: bool = False,
    ) -> Written:
        if form.shown is not form.stored:
            obj = stored_form.decode(form.shown, revision, at.resource)
            if not revision:
                del obj["metadata"]["resourceVersion"]
        return Written(obj, form.shown, revision, created=created, removed=removed)

    async def _admit(self, at: Attributes, new: Object | None, old: Object | None) -> Sequence[TransactionExtras]:
        extras = []
        for admission in self.kinds.mutating:
            transaction_extras = await admission.admit(at, new, old)
            if transaction_extras is not None:
                extras.append(transaction_extras)
        return extras

    async def _vet(self, at: Attributes, new: Object, old: Object | None) -> None:
        for admission in self.kinds.validating:
            await admission.admit(at, new, old)

    def _key(self, at: Attributes, name: str) -> str:
        return stored_form.key(at.resource, at.namespace, name)

    def _resource_of(self, stored: Stored) -> ResourceType:
        parts = keys.split(stored.key)
        return self.resource(GroupResource(parts.group, parts.plural))

    def _uid(self) -> str:
        return system_fields.uid(self._rng.getrandbits(128))


def _stored(entry: Entry, resource: ResourceType) -> Stored:
    obj = stored_form.entry_object(entry, resource)
    return Stored(
        key=entry.key, object=obj, revision=entry.revision, created=entry.created, size_bytes=len(entry.value)
    )


def _taken(resource: ResourceType, name: str, refused: Refused) -> errors.AlreadyExists:
    error = errors.already_exists(resource.group_resource, name)
    actual = refused.conflicts[0].actual
    if actual is not None and stored_form.entry_object(actual, resource)["metadata"].get("deletionTimestamp"):
        return errors.AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    return error


def _refuse_invalid(at: Attributes, obj: Object, found: Sequence[fields.FieldError]) -> None:
    if found:
        raise errors.invalid(at.resource.group_kind, obj["metadata"].get("name", ""), found)
