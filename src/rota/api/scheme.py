"""The registry of kinds: their names and versions; kinds can be added at run time.

`builtin()` gives a scheme of all built-in kinds. Looking things up never waits: the indexes are built anew on every
change and put in place with one assignment, so a reader sees either the old or the new state, whole. Writers must
not run at the same time; those that might (several threads) hand in a lock as `guard`.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rota.api import builtin_kinds
from rota.api.identifiers import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource
from rota.api.kinds import ResourceType, version_rank


class SchemeError(ValueError):
    """A kind cannot be added, because its name is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    by_resource: Mapping[GroupVersionResource, ResourceType]
    by_kind: Mapping[GroupVersionKind, ResourceType]
    #: All versions of a resource, the preferred one first.
    versions: Mapping[GroupResource, tuple[ResourceType, ...]]
    by_group_kind: Mapping[GroupKind, ResourceType]
    #: Lower-case plural, singular, short name or kind to the preferred versions that answer to it.
    by_name: Mapping[str, tuple[ResourceType, ...]]
    generation: int


class Scheme:
    """Kinds by their names. It is passed as an argument; there is no global one."""

    def __init__(
        self, types: Iterable[ResourceType] = (), *, guard: contextlib.AbstractContextManager[object] | None = None
    ) -> None:
        self._guard: Final = guard if guard is not None else contextlib.nullcontext()
        self._index = _build(types, generation=0)

    def add(self, *types: ResourceType) -> None:
        """Register kinds, all or none. A custom kind replaces its former self; a built-in one cannot be replaced."""
        with self._guard:
            index = self._index
            for one in types:
                _check_free(index, one)
            merged = {**index.by_resource, **{one.gvr: one for one in types}}
            self._index = _build(merged.values(), generation=index.generation + 1)

    def remove(self, resource: GroupResource) -> bool:
        """Forget all versions of a custom resource; False if there was none."""
        with self._guard:
            index = self._index
            gone = {one.gvr for one in index.versions.get(resource, ()) if one.custom}
            if gone:
                kept = (one for one in index.by_resource.values() if one.gvr not in gone)
                self._index = _build(kept, generation=index.generation + 1)
            return bool(gone)

    def replace(self, resource: GroupResource, types: Iterable[ResourceType]) -> None:
        """Put these versions in the place of all versions of a custom resource, in one step."""
        with self._guard:
            index = self._index
            fresh = tuple(types)
            kept = [one for one in index.by_resource.values() if one.group_resource != resource or not one.custom]
            remaining = _build(kept, generation=index.generation)
            for one in fresh:
                _check_free(remaining, one)
            self._index = _build([*kept, *fresh], generation=index.generation + 1)

    @property
    def generation(self) -> int:
        """Grows with every change, so that what was derived from a scheme can tell whether it is stale."""
        return self._index.generation

    def by_resource(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type that a request path names."""
        return self._index.by_resource.get(GroupVersionResource(group, version, plural))

    def by_kind(self, gvk: GroupVersionKind) -> ResourceType | None:
        """The type that `apiVersion` and `kind` name."""
        return self._index.by_kind.get(gvk)

    def by_group_kind(self, kind: GroupKind) -> ResourceType | None:
        """The preferred version of a kind."""
        return self._index.by_group_kind.get(kind)

    def versions(self, resource: GroupResource) -> tuple[ResourceType, ...]:
        """All versions of a resource, the preferred one first; empty if there is no such resource."""
        return self._index.versions.get(resource, ())

    def preferred(self, resource: GroupResource) -> ResourceType | None:
        """The preferred version of a resource."""
        return next(iter(self.versions(resource)), None)

    def find(self, name: str) -> ResourceType | None:
        """What a person means: `po`, `pods`, `Pod`, `deployments.apps`, `deployments.v1.apps`.

        Where several groups answer to a name, the core group wins, then the one listed first.
        """
        plain, _, rest = name.partition(".")
        candidates = self._index.by_name.get(plain.lower(), ())
        if not rest:
            return next(iter(candidates), None)
        version, _, group = rest.partition(".")
        for one in candidates:
            if one.group == rest:
                return one
            exact = self.by_resource(group, version, one.plural)
            if exact is not None and one.group == group:
                return exact
        return None

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Every group with its versions, the preferred one first; the core group is the first of all."""
        found: dict[str, set[str]] = {}
        for group, version in {one.group_version for one in self}:
            found.setdefault(group, set()).add(version)
        return {group: tuple(sorted(found[group], key=version_rank)) for group in sorted(found)}

    def in_group_version(self, group_version: GroupVersion) -> tuple[ResourceType, ...]:
        """The types of a group and version, in the order of their plurals."""
        return tuple(sorted((one for one in self if one.group_version == group_version), key=lambda one: one.plural))

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._index.by_resource.values())

    def __len__(self) -> int:
        return len(self._index.by_resource)

    def __contains__(self, resource: object) -> bool:
        return isinstance(resource, ResourceType) and self._index.by_resource.get(resource.gvr) == resource


def builtin(*, guard: contextlib.AbstractContextManager[object] | None = None) -> Scheme:
    """A scheme of all built-in kinds."""
    own = builtin_kinds.own_resource_types()
    return Scheme([*builtin_kinds.resource_types(), *own], guard=guard)


def _check_free(index: _Index, one: ResourceType) -> None:
    taken = index.by_resource.get(one.gvr)
    if taken is not None and not taken.custom:
        raise SchemeError(f"{one.gvr} is a built-in resource and cannot be replaced")
    taken = index.by_kind.get(one.gvk)
    if taken is not None and taken.plural != one.plural:
        raise SchemeError(f"{one.gvk} is already the kind of {taken.plural}; choose another kind or group")


def _build(types: Iterable[ResourceType], *, generation: int) -> _Index:
    by_resource = {one.gvr: one for one in types}
    versions: dict[GroupResource, list[ResourceType]] = {}
    for one in by_resource.values():
        versions.setdefault(one.group_resource, []).append(one)
    ordered = {key: tuple(sorted(found, key=lambda one: version_rank(one.version))) for key, found in versions.items()}
    by_name: dict[str, list[ResourceType]] = {}
    # the core group first, because a bare name means it
    for preferred in sorted((found[0] for found in ordered.values()), key=lambda one: one.group != ""):
        for name in dict.fromkeys(
            (preferred.plural, preferred.singular, *preferred.short_names, preferred.kind.lower())
        ):
            by_name.setdefault(name, []).append(preferred)
    return _Index(
        by_resource=by_resource,
        by_kind={one.gvk: one for one in by_resource.values()},
        versions=ordered,
        by_group_kind={found[0].group_kind: found[0] for found in ordered.values()},
        by_name={name: tuple(found) for name, found in by_name.items()},
        generation=generation,
    )
