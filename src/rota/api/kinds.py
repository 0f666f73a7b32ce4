"""The properties of a kind besides its schema: names, scope, verbs, subresources, and where its Struct is.

`ResourceType` is a value. Built-in ones are listed in `builtin_kinds`; custom ones are made from a
CustomResourceDefinition by the API server and have no Struct, but may bring a function that checks objects.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rota.api import fields
from rota.api.identifiers import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource

#: Says what is wrong with an object; an empty list means nothing.
Validator: TypeAlias = Callable[[Mapping[str, Any]], list[fields.FieldError]]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A part of an object with a path of its own, such as `status` or `binding`."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    #: Module and class of the Struct, as in `core_v1.Binding`; None if it has none.
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict, hash=False)
    #: Module and class of the Struct, as in `core_v1.Pod`; None for custom kinds.
    model: str | None = None
    validator: Validator | None = field(default=None, compare=False, repr=False)
    #: The apiVersion in which objects of a custom kind are stored, if its versions differ in name only; else empty.
    stored_as: str = field(default="", compare=False, repr=False)
    # What follows from the fields above is kept, because every request asks for it many times over.
    #: The value of the `apiVersion` field.
    api_version: str = field(init=False, compare=False, repr=False)
    #: The resource whatever its version, as errors name it.
    group_resource: GroupResource = field(init=False, compare=False, repr=False)
    #: The kind whatever its version, as validation errors name it.
    group_kind: GroupKind = field(init=False, compare=False, repr=False)
    gvk: GroupVersionKind = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.list_kind:
            object.__setattr__(self, "list_kind", self.kind + "List")
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)
        object.__setattr__(self, "group_resource", GroupResource(self.group, self.plural))
        object.__setattr__(self, "group_kind", GroupKind(self.group, self.kind))
        object.__setattr__(self, "gvk", GroupVersionKind(self.group, self.version, self.kind))

    @property
    def custom(self) -> bool:
        """Whether the kind was added at run time: its unknown fields are its schema's business, not ours."""
        return self.model is None

    @property
    def group_version(self) -> GroupVersion:
        """Group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def gvr(self) -> GroupVersionResource:
        """Group, version and resource."""
        return GroupVersionResource(self.group, self.version, self.plural)

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else self.plural


def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts the preferred version first: stable, then beta, then alpha, higher numbers first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0), version
