"""Steps of a write that need no store: the transaction's content, and the meaning of a conflict."""

from collections.abc import Iterable
from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object, TransactionExtras
from rota.store.store_interface import Delete, Precondition, Put, Refused, Transaction

_LEASES: Final = GroupResource("coordination.k8s.io", "leases")
_NODES: Final = GroupResource("", "nodes")
_RENEWED: Final = frozenset({"renewTime", "leaseTransitions"})


def transaction(write: Put | Delete, guard: Precondition, extras: Iterable[TransactionExtras]) -> Transaction:
    """The object's write, and the extras of admission."""
    writes: list[Put | Delete] = [write]
    guards = [guard]
    for transaction_extras in extras:
        writes += transaction_extras.writes
        guards += transaction_extras.guards
    return Transaction(tuple(writes), tuple(guards))


def lost(refused: Refused, key: str) -> bool:
    """Whether the object itself is not as expected; otherwise only an extra precondition failed."""
    return any(conflict.guard.key == key for conflict in refused.conflicts)


def is_heartbeat(new: Object, old: Object, at: Attributes) -> bool:
    """Whether an update is only a heartbeat: history may keep the latest of such writes in a row."""
    which = at.resource.group_resource
    if which == _LEASES:
        return _but(new, "spec") == _but(old, "spec") and _without(new.get("spec"), _RENEWED) == _without(
            old.get("spec"), _RENEWED
        )
    if which == _NODES and at.subresource == "status":
        return _but(new, "status") == _but(old, "status") and _still(new.get("status")) == _still(old.get("status"))
    return False


def _but(obj: Object, part: str) -> Object:
    """The object without one part, and without managedFields times."""
    metadata = _without(obj["metadata"], frozenset({"managedFields", "resourceVersion"}))
    return {**_without(obj, frozenset({part})), "metadata": metadata}


def _still(status: Object | None) -> Object:
    """A node's status without its heartbeat times."""
    conditions = (status or {}).get("conditions") or []
    return {**(status or {}), "conditions": [_without(one, frozenset({"lastHeartbeatTime"})) for one in conditions]}


def _without(mapping: Object | None, names: frozenset[str]) -> Object:
    return {name: item for name, item in (mapping or {}).items() if name not in names}
