"""Objects are made in namespaces that exist and are not going away; the system's own namespaces stay.

The namespace is guarded until the object is written, so none comes into one whose emptying has begun. That also makes
it safe to take it from memory: an old state of it makes the write start over, with a look at the store.
"""

from typing import Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry, TransactionExtras
from rota.apiserver.strategies import namespaces
from rota.store.store_interface import Precondition

NAMESPACES: Final = GroupResource("", "namespaces")
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class NamespaceLifecycle:
    """Looks at the namespace of whatever is created."""

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """NotFound or Forbidden if the namespace is not there, or not for long."""
        if new is None:
            if at.resource.group_resource == NAMESPACES and at.name in IMMORTAL:
                raise errors.forbidden(NAMESPACES, at.name, "this namespace may not be deleted")
            return None
        if old is not None or not at.resource.namespaced:
            return None
        namespace = None if at.fresh else self._copy.find("", at.namespace)
        if namespace is None or namespaces.is_terminating(namespace.object):
            # it may have been made, or made anew, a moment ago
            namespace = await self._registry.read(self._registry.resource(NAMESPACES), "", at.namespace)
        if namespaces.is_terminating(namespace.object):
            raise _terminating(at, new["metadata"].get("name", ""))
        return TransactionExtras(guards=(Precondition(namespace.key, revision=namespace.revision),))


def _terminating(at: Attributes, name: str) -> errors.Forbidden:
    which, where = at.resource.group_resource, at.namespace
    plain = errors.forbidden(which, name, namespaces.terminating_message(where))
    cause = errors.Cause(
        type="NamespaceTerminating", message=f"namespace {where} is being terminated", field="metadata.namespace"
    )
    details = errors.Details(name=name, group=which.group, kind=which.resource, causes=(cause,))
    return errors.Forbidden(plain.message, details=details)
