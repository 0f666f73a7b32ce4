"""ResourceQuotas: limits of a namespace's usage, charged in the transaction that uses it.

A quota's `status.used` is never too low: a charge is written together with the object, with the quota's revision as a
precondition, while deletions only lower the real usage. As long as `status.used` allows an object, nothing else is
read. Before an object is refused, or if there is no record yet, the namespace is counted again. The count is cached; it
is used again until the store's history shows a change of what was counted. Whether a namespace has quotas is read from
a cache; the quotas themselves are read from the store, since every charge changes them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rota.api import errors, quotas
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry, Stored, TransactionExtras
from rota.store import errors as store_errors
from rota.store.store_interface import Precondition, Put, Store

QUOTAS: Final = GroupResource("", "resourcequotas")
#: Kinds whose updates can increase usage; all others are only counted.
_GROWING: Final = frozenset({quotas.PODS, quotas.SERVICES, quotas.CLAIMS})
#: How long a count is used if nothing changes: the usage of a pod also depends on the time.
_COUNT_EVERY_S: Final = 1.0
_MOST_COUNTS: Final = 1000
#: How often history is asked whether it is complete; after that the namespace is counted instead.
_LOOKS: Final = 10


@dataclass(slots=True)
class _Count:
    """What a namespace used of what a quota limits."""

    #: The revision of the quota.
    quota: int
    counted_at: float
    used: dict[str, int]
    #: Nothing that was counted has changed up to this revision of the store.
    revision: int


class ResourceQuota:
    """Charges new objects, and what updates add. Runs last: refused objects are not charged."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({QUOTAS})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy
        #: The last count by the key of the quota.
        self._counts: Final[dict[str, _Count]] = {}

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Forbidden if a quota would be exceeded."""
        which = at.resource.group_resource
        if new is None or at.subresource or not at.resource.namespaced:
            return None
        if old is not None and which not in _GROWING:
            return None
        if self._copy.following and not self._copy.any(at.namespace):
            return None
        # a quota that counts quotas cannot be charged in the transaction that creates or changes it
        limits = [
            one
            for one in await self._registry.list(self._registry.resource(QUOTAS), at.namespace)
            if which != QUOTAS or one.object["metadata"]["name"] != new["metadata"].get("name")
        ]
        if not limits:
            return None
        delta = _added(which, new, old, now=at.now)
        puts: list[Put] = []
        guards: list[Precondition] = []
        for quota in limits:
            put = await self._charge(at, quota, new, delta)
            if put is not None:
                puts.append(put)
                guards.append(Precondition(quota.key, revision=quota.revision))
        return TransactionExtras(writes=tuple(puts), guards=tuple(guards)) if puts else None

    async def _charge(self, at: Attributes, quota: Stored, new: Object, delta: Mapping[str, int]) -> Put | None:
        which, spec = at.resource.group_resource, quota.object.get("spec") or {}
        hard = {name: quotas.measure(name, quantity) for name, quantity in (spec.get("hard") or {}).items()}
        wanted = {name: amount for name, amount in delta.items() if name in hard and amount > 0}
        if not quotas.matches(spec, which, new):
            return None
        name = new["metadata"].get("name", "")
        if which == quotas.PODS and at.verb == "create":
            _demand_requests(quota, name, new, frozenset(hard))
        if not wanted:
            return None
        recorded = (quota.object.get("status") or {}).get("used") or {}
        used = {one: quotas.measure(one, recorded[one]) for one in hard if one in recorded}
        if used.keys() != hard.keys() or _exceeded(used, wanted, hard):
            used = await self._counted(quota, spec, hard, at)
        exceeded = _exceeded(used, wanted, hard)
        if exceeded:
            why = (
                f"exceeded quota: {quota.object['metadata']['name']}, requested: {_listed(wanted, exceeded)}, "
                f"used: {_listed(used, exceeded)}, limited: {_listed(hard, exceeded)}"
            )
            raise errors.forbidden(which, name, why)
        total = {one: quotas.shown(one, used[one] + wanted.get(one, 0)) for one in hard}
        status = {"hard": dict(spec["hard"]), "used": total}
        return Put(quota.key, self._registry.encode({**quota.object, "status": status}))

    async def _counted(self, quota: Stored, spec: Object, hard: Mapping[str, int], at: Attributes) -> dict[str, int]:
        """The real usage, cached for clients that are refused repeatedly."""
        counted = self._counted_kinds(hard)
        known = self._counts.get(quota.key)
        if known is not None and known.quota == quota.revision and 0 <= at.now - known.counted_at < _COUNT_EVERY_S:
            prefixes = [stored_form.prefix(one, at.namespace) for one in counted]
            newest = (await self._registry.store.revision_range()).revision
            if await _all_unchanged(self._registry.store, prefixes, known.revision, newest):
                known.revision = max(known.revision, newest)
                return known.used
        revision = (await self._registry.store.revision_range()).revision
        used = await self._count(spec, hard, at, counted)
        if len(self._counts) >= _MOST_COUNTS:
            self._counts.clear()
        self._counts[quota.key] = _Count(quota.revision, at.now, used, revision)
        return used

    def _counted_kinds(self, hard: Mapping[str, int]) -> list[ResourceType]:
        return [one for which in quotas.kinds(hard) if (one := self._registry.scheme.preferred(which)) is not None]

    async def _count(
        self, spec: Object, hard: Mapping[str, int], at: Attributes, known: Sequence[ResourceType]
    ) -> dict[str, int]:
        """The usage of all limited resources in the namespace."""
        used = dict.fromkeys(hard, 0)
        listed = await asyncio.gather(*(self._registry.list(one, at.namespace) for one in known))
        for resource, found in zip(known, listed, strict=True):
            which = resource.group_resource
            for stored in found:
                if quotas.matches(spec, which, stored.object):
                    for name, amount in quotas.usage(which, stored.object, now=at.now).items():
                        if name in used:
                            used[name] += amount
        return used


async def _all_unchanged(store: Store, prefixes: Sequence[str], after: int, newest: int) -> bool:
    """Whether no key under these prefixes was written between two revisions."""
    if newest <= after:
        return True
    return all(await asyncio.gather(*(_unchanged(store, prefix, after, newest) for prefix in prefixes)))


async def _unchanged(store: Store, prefix: str, after: int, newest: int) -> bool:
    try:
        async with store.watch(prefix, after=after) as watch:
            for _ in range(_LOOKS):
                watch.nudge()
                batch = await anext(watch, None)
                if batch is None or batch.events:
                    return False
                if watch.revision >= newest:
                    return True
                await asyncio.sleep(0)
    except (store_errors.Expired, store_errors.FutureRevision, store_errors.SlowWatcher):
        pass
    return False


def _added(which: GroupResource, new: Object, old: Object | None, *, now: float) -> dict[str, int]:
    used = quotas.usage(which, new, now=now)
    before = quotas.usage(which, old, now=now) if old is not None else {}
    return {name: amount - before.get(name, 0) for name, amount in used.items()}


def _demand_requests(quota: Stored, name: str, pod: Object, hard: frozenset[str]) -> None:
    missing = quotas.pod_missing(pod, hard)
    if missing:
        listed = "; ".join(f"{one} for: {','.join(sorted(names))}" for one, names in sorted(missing.items()))
        why = f"failed quota: {quota.object['metadata']['name']}: must specify {listed}"
        raise errors.forbidden(quotas.PODS, name, why)


def _exceeded(used: Mapping[str, int], wanted: Mapping[str, int], hard: Mapping[str, int]) -> list[str]:
    return sorted(name for name, amount in wanted.items() if used.get(name, 0) + amount > hard[name])


def _listed(found: Mapping[str, int], names: Sequence[str]) -> str:
    return ",".join(f"{name}={quotas.shown(name, found[name])}" for name in names)
