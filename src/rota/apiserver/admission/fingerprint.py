"""The state that admission of new pods depends on: whether a pod equal to an admitted one must be admitted again.

Each plugin declares what it reads (`Admission.pod_reads`). A plugin that reads state which no fingerprint covers is
refused when the server starts, so that no pod is admitted by outdated state.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.admission import mutating_policies
from rota.apiserver.admission.limit_ranger import RANGES
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.priority import CLASSES
from rota.apiserver.admission.resource_quota import QUOTAS
from rota.apiserver.admission.runtime_classes import RUNTIMES
from rota.apiserver.admission.service_accounts import ACCOUNTS, DEFAULT
from rota.apiserver.admission.validating_policies import BINDINGS, POLICIES
from rota.apiserver.admission.webhook_table import MUTATING, VALIDATING
from rota.apiserver.authorization.nodes import identity
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import REQUESTER, Admission, AdmissionFingerprint, Attributes, Object
from rota.apiserver.strategies import namespaces
from rota.store.store_interface import Precondition

_PODS: Final = GroupResource("", "pods")
_NODES: Final = GroupResource("", "nodes")
#: Namespaces are preconditions; a change of the other kinds changes the fingerprint, or there is none (limits, quotas,
#: policies and webhooks of users).
#: Users matter only if they are nodes, which get no fingerprint; no template is kept of a pod with a node.
_COVERED: Final = frozenset(
    {NAMESPACES, RANGES, QUOTAS, CLASSES, RUNTIMES, ACCOUNTS, REQUESTER, _NODES}
    | {POLICIES, BINDINGS, MUTATING, VALIDATING, mutating_policies.POLICIES, mutating_policies.BINDINGS}
)
#: How many namespaces are remembered.
_MOST: Final = 4096


class AdmissionFingerprints:
    """Reads the caches that the plugins use."""

    def __init__(
        self,
        copies: Mapping[GroupResource, WatchCache],
        plugins: Iterable[Admission],
        reviewed: Callable[[str, str], bool],
        exempt: frozenset[str] = frozenset(),
    ) -> None:
        """`reviewed`: whether policies or webhooks of users may be about a resource or subresource.

        `exempt`: users whose pods no Pod Security level binds; what is admitted for them is not admitted for others.

        ValueError if a plugin reads state that no fingerprint covers.
        """
        for plugin in plugins:
            if missing := plugin.pod_reads - _COVERED:
                reads = ", ".join(sorted(map(str, missing)))
                raise ValueError(f"{type(plugin).__name__} reads {reads}, which no admission fingerprint covers")
        self._namespaces: Final = copies[NAMESPACES]
        self._ranges: Final = copies[RANGES]
        self._quotas: Final = copies[QUOTAS]
        self._reviewers: Final = tuple(
            copies[one]
            for one in (
                *(BINDINGS, POLICIES, MUTATING, VALIDATING),
                *(mutating_policies.BINDINGS, mutating_policies.POLICIES),
            )
        )
        self._reviewed: Final = reviewed
        self._exempt: Final = exempt
        self._classes: Final = (copies[CLASSES], copies[RUNTIMES])
        self._accounts: Final = copies[ACCOUNTS]
        #: Counts the changes of priority classes, runtime classes and service accounts.
        self._changes = 0
        self._known: Final[dict[str, tuple[int, AdmissionFingerprint]]] = {}
        for classes in self._classes:
            classes.subscribe(self._note)
        self._accounts.subscribe(self._note_account)

    def of(self, at: Attributes) -> AdmissionFingerprint | None:
        """See `Kinds.admission_fingerprint`: None for namespaces with limits or quotas, and for what nodes create."""
        if at.resource.group_resource != _PODS or at.subresource or at.fresh or identity.node_of(at.user) is not None:
            return None
        if at.user.name in self._exempt:
            return None
        if not all(
            one.following for one in (self._ranges, self._quotas, self._accounts, *self._classes, *self._reviewers)
        ):
            return None
        where = at.namespace
        if self._ranges.any(where) or self._quotas.any(where) or self._reviewed("pods", ""):
            return None
        namespace = self._namespaces.find("", where)
        if namespace is None:
            return None
        known = self._known.get(where)
        if known is not None and known[0] == namespace.revision:
            return known[1]
        if namespaces.is_terminating(namespace.object):
            return None
        if len(self._known) >= _MOST:
            self._known.clear()
        admission_fingerprint = AdmissionFingerprint(
            (Precondition(namespace.key, revision=namespace.revision),), self._changes
        )
        self._known[where] = (namespace.revision, admission_fingerprint)
        return admission_fingerprint

    def _note(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1
        self._known.clear()

    def _note_account(self, old: Object | None, new: Object | None) -> None:
        """What exists counts, not what is in it; and the default account is not looked up."""
        metadata = (new or old or {})["metadata"]
        if (old is None) != (new is None) and metadata["name"] != DEFAULT:
            self._changes += 1
            self._known.pop(metadata["namespace"], None)
