"""URL paths of resources: `/api/v1/namespaces/default/pods/web-0/status`.

A resource is named by its `ResourceType`, whose scope is checked, or by a bare (group, version, plural), whose scope
the caller decides: with a namespace or without.
"""

from typing import Final, TypeAlias
from urllib.parse import quote

from rota.api.kinds import ResourceType

Target: TypeAlias = ResourceType | tuple[str, str, str]

#: Unescaped characters of a segment; names of some kinds (RBAC) contain colons.
_SAFE: Final = ":@"


def group_version(group: str, version: str) -> str:
    """The root of a group's version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def collection(target: Target, namespace: str = "") -> str:
    """All objects of a resource, or those of one namespace."""
    if isinstance(target, ResourceType):
        group, version, plural = target.group, target.version, target.plural
        if namespace and not target.namespaced:
            raise ValueError(f"{target} have no namespaces, but {namespace!r} was given")
    else:
        group, version, plural = target
    root = group_version(group, version)
    return f"{root}/namespaces/{quote(namespace, safe=_SAFE)}/{plural}" if namespace else f"{root}/{plural}"


def label(target: Target) -> str:
    """The resource in metrics and logs: `pods`, `jobs.batch`."""
    group, plural = (target.group, target.plural) if isinstance(target, ResourceType) else (target[0], target[2])
    return f"{plural}.{group}" if group else plural


def item(target: Target, name: str, *, namespace: str = "", subresource: str = "") -> str:
    """One object, or a subresource of it."""
    if not name:
        raise ValueError(f"which of the {target}? the name is empty")
    require_namespace(target, namespace)
    path = f"{collection(target, namespace)}/{quote(name, safe=_SAFE)}"
    return f"{path}/{subresource}" if subresource else path


def require_namespace(target: Target, namespace: str) -> None:
    """Raise an error for an object of a namespaced kind without its namespace."""
    if isinstance(target, ResourceType) and target.namespaced and not namespace:
        raise ValueError(f"{target} live in namespaces: name one")
