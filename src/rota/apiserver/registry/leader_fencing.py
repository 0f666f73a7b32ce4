"""Leader fencing: a leader's write takes effect only while its term lasts, however late it arrives.

A leader may be suspended between its decision and its write, and resume when another one leads. No clock can exclude
that, so the store does: whenever the holder of a Lease changes, the same transaction writes the holder to a key beside
it (`record`), and nothing else ever writes that key. A request that names its term (`interfaces.LeaderFence`) is
committed with the revision of that key as a precondition. So a takeover and a late write cannot happen in the wrong
order, through whatever servers they go.

Renewals do not touch the key: usually a fenced write costs one more precondition, and no read.
"""

from typing import ClassVar, Final

import msgspec

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, LeaderFence, Object, TransactionExtras
from rota.kit import logs
from rota.store.store_interface import Committed, Entry, Outcome, Precondition, Put, Store, Transaction

log = logs.get(__name__)

LEASES: Final = GroupResource("coordination.k8s.io", "leases")
#: Node leases are not leader elections: no request is made in their name.
_NODES: Final = "kube-node-lease"
#: No API group can begin with a tilde.
_PREFIX: Final = "/~terms/"
_TRIES: Final = 8


class LeaseHolder(msgspec.Struct, frozen=True, gc=False):
    """The holder of a Lease, and its number of transitions."""

    holder: str
    transitions: int


_decoder: Final = msgspec.json.Decoder(LeaseHolder)
_encoder: Final = msgspec.json.Encoder()


class LeaderRecords:
    """An `Admission` of Leases: records their holders."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Add the record to the transaction that changes the holder."""
        if at.resource.group_resource != LEASES or at.subresource or at.namespace == _NODES:
            return None
        before, after = _holder(old), _holder(new)
        if old is not None and before == after:
            return None
        name = at.name or ((new or {}).get("metadata") or {}).get("name", "")
        return TransactionExtras(writes=(Put(_key(at.namespace, name), _encoder.encode(after)),))


class LeaderFencing:
    """Commits requests that name a leader term."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        #: The last known state of each term: its holder, and the revision of the record.
        self._known: Final[dict[str, tuple[LeaseHolder, int]]] = {}

    async def commit(self, fence: LeaderFence, transaction: Transaction) -> Outcome:
        """Like `Store.commit`; Conflict if the term is over."""
        key = _key(fence.namespace, fence.name)
        wanted = LeaseHolder(fence.holder, fence.transitions)
        known = self._known.get(key)
        for _ in range(_TRIES):
            if known is None or known[0] != wanted:
                # The cached state may be outdated.
                known = self._learn(key, await self._store.get(key))
                if known is None or known[0] != wanted:
                    raise _over(fence, known)
            guard = Precondition(key, revision=known[1])
            outcome = await self._store.commit(Transaction(transaction.writes, (*transaction.guards, guard)))
            if isinstance(outcome, Committed):
                return outcome
            moved = next((one for one in outcome.conflicts if one.guard.key == key), None)
            if moved is None:
                return outcome
            known = self._learn(key, moved.actual)
        raise _over(fence, known)

    def _learn(self, key: str, entry: Entry | None) -> tuple[LeaseHolder, int] | None:
        if entry is None:
            self._known.pop(key, None)
            return None
        found = self._known[key] = _decoder.decode(entry.value), entry.revision
        return found


def _over(fence: LeaderFence, known: tuple[LeaseHolder, int] | None) -> errors.Conflict:
    holder = known[0].holder if known is not None else ""
    lease = f"{fence.namespace}/{fence.name}"
    log.warning("write of a former leader refused", lease=lease, writer=fence.holder, leader=holder)
    says = f"{holder} holds it" if holder else "it has no holder"
    return errors.Conflict(f"the term of {fence.holder} as the holder of the lease {lease} is over: {says}")


def _holder(lease: Object | None) -> LeaseHolder:
    spec = (lease or {}).get("spec") or {}
    return LeaseHolder(str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0))


def _key(namespace: str, name: str) -> str:
    return f"{_PREFIX}{namespace}/{name}"
