"""Objects can be created only in namespaces that exist and are not terminating; system namespaces cannot be deleted.

The namespace's revision is a precondition of the write, so no object is created after the deletion of its content has
begun. That also makes the cache safe to use: an outdated namespace makes the write start over with a read of the store.
"""

from typing import ClassVar, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry, TransactionExtras
from rota.apiserver.strategies import namespaces
from rota.store.store_interface import Precondition

NAMESPACES: Final = GroupResource("", "namespaces")
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class NamespaceLifecycle:
    """Checks the namespace of every object that is created."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({NAMESPACES})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """NotFound or Forbidden if the namespace does not exist or is terminating."""
        if new is None:
            if at.resource.group_resource == NAMESPACES and at.name in IMMORTAL:
                raise errors.forbidden(NAMESPACES, at.name, "this namespace may not be deleted")
            return None
        if old is not None or not at.resource.namespaced:
            return None
        namespace = None if at.fresh else self._copy.find("", at.namespace)
        if namespace is None or namespaces.is_terminating(namespace.object):
            # it may have been created, or created again, a moment ago
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
