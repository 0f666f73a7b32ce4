"""The key of an object in the store: `/core/pods/default/web-0`, `/apps/deployments/default/web`, `/core/nodes/n1`.

A key is group (`core` for the unnamed one), plural, namespace if the resource has namespaces, and name. The version
is not part of it: all versions of an object are one object. Every prefix ends in a slash, so no resource or
namespace is mistaken for one whose name only begins like it.
"""

from typing import Final, NamedTuple, Protocol

_CORE: Final = "core"


class Resource(Protocol):
    """The part of a `kinds.ResourceType` that decides about keys."""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        ...

    @property
    def plural(self) -> str:
        """The resource's name in paths."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""
        ...


class KeyParts(NamedTuple):
    """A key taken apart; the namespace of a cluster-scoped object is empty."""

    group: str
    plural: str
    namespace: str
    name: str


def for_object(resource: Resource, namespace: str | None, name: str) -> str:
    """The key of an object; ValueError if a part is missing, superfluous or would break out of its place."""
    if namespace and not resource.namespaced:
        raise ValueError(f"{resource.plural} have no namespaces, but {namespace!r} was given")
    place = namespace if resource.namespaced else "-"
    if not place or not name or "/" in place or "/" in name:
        # slowly, to say which part is wrong
        return _under(resource, namespace) + _part("name", name)
    start = f"/{_group(resource.group) if resource.group else _CORE}/{resource.plural}/"
    return f"{start}{place}/{name}" if resource.namespaced else start + name


def prefix(resource: Resource, namespace: str | None = None) -> str:
    """The prefix of all objects of a resource, or of those in one namespace."""
    if namespace is None:
        return f"/{_group(resource.group)}/{_part('plural', resource.plural)}/"
    if not resource.namespaced:
        raise ValueError(f"{resource.plural} have no namespaces, but {namespace!r} was asked for")
    return _under(resource, namespace)


def split(key: str) -> KeyParts:
    """The parts of a key that `for_object` made."""
    parts = key.split("/")
    if len(parts) not in {4, 5} or parts[0] or not all(parts[1:]):
        raise ValueError(f"{key!r} is not the key of an object")
    group = "" if parts[1] == _CORE else parts[1]
    return KeyParts(group, parts[2], parts[3] if len(parts) == 5 else "", parts[-1])


def _under(resource: Resource, namespace: str | None) -> str:
    start = f"/{_group(resource.group)}/{_part('plural', resource.plural)}/"
    return f"{start}{_part('namespace', namespace)}/" if resource.namespaced else start


def _group(group: str) -> str:
    if group == _CORE:
        raise ValueError("a group cannot be called 'core': that is where the unnamed group is kept")
    return _part("group", group) if group else _CORE


def _part(what: str, value: str | None) -> str:
    if not value or "/" in value:
        raise ValueError(f"the {what} of a key must not be empty or hold a slash: {value!r}")
    return value
