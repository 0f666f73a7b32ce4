"""A pod's service account: `default` for a pod that names none; one that is named has to exist.

`default` itself is not looked up. A controller creates it in every namespace, and a pod that is created together with
its namespace need not wait for that controller. Tokens are mounted by workers, not by this rule.
"""

from typing import ClassVar, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.admission.node_capacity import MIRROR
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
ACCOUNTS: Final = GroupResource("", "serviceaccounts")
DEFAULT: Final = "default"


class ServiceAccounts:
    """Resolves `serviceAccountName`."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({ACCOUNTS})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Name the account of a new pod; Forbidden if there is no such account. Mirror pods have none."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _PODS:
            return
        spec, metadata = new["spec"], new["metadata"]
        if MIRROR in (metadata.get("annotations") or {}):
            return
        account = spec.get("serviceAccountName")
        if not account:
            spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
        elif account != DEFAULT and not await self._exists(at.namespace, account):
            why = f'error looking up service account {at.namespace}/{account}: serviceaccount "{account}" not found'
            raise errors.forbidden(_PODS, metadata.get("name", ""), why)

    async def _exists(self, namespace: str, name: str) -> bool:
        if self._copy.get(namespace, name) is not None:
            return True
        return await self._registry.find(self._registry.resource(ACCOUNTS), namespace, name) is not None
