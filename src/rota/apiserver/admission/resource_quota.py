"""ResourceQuotas: what a namespace may use at most, counted in the transaction that uses it.

A quota's `status.used` is a record that is never too low: what is charged is written together with the object, guarded
by the quota's revision, while what is freed only makes the truth smaller. As long as the record allows an object,
nothing else is looked at; before it refuses one, or where it has no record yet, the namespace is counted anew.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.admission import amounts
from rota.apiserver.contract import Attributes, Object, Registry, Rider, Stored
from rota.apiserver.strategies.pods import qos_class
from rota.store.contract import Guard, Put

QUOTAS: Final = GroupResource("", "resourcequotas")
#: Kinds of which an update can use more than before; all others are only counted.
_GROWING: Final = frozenset({amounts.PODS, amounts.SERVICES, amounts.CLAIMS})


class ResourceQuota:
    """Charges new objects, and what updates add. Comes last: nothing is charged that is refused by others."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Final = registry

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> Rider | None:
        """Forbidden if a quota would be exceeded."""
        which = at.resource.group_resource
        if new is None or at.subresource or not at.resource.namespaced:
            return None
        if old is not None and which not in _GROWING:
            return None
        # a quota that counts quotas cannot be charged in the transaction that makes or changes it
        quotas = [
            one
            for one in await self._registry.list(self._registry.resource(QUOTAS), at.namespace)
            if which != QUOTAS or one.object["metadata"]["name"] != new["metadata"].get("name")
        ]
        if not quotas:
            return None
        delta = _added(which, new, old, now=at.now)
        puts: list[Put] = []
        guards: list[Guard] = []
        for quota in quotas:
            put = await self._charge(at, quota, new, delta)
            if put is not None:
                puts.append(put)
                guards.append(Guard(quota.key, revision=quota.revision))
        return Rider(writes=tuple(puts), guards=tuple(guards)) if puts else None

    async def _charge(self, at: Attributes, quota: Stored, new: Object, delta: Mapping[str, int]) -> Put | None:
        which, spec = at.resource.group_resource, quota.object.get("spec") or {}
        hard = {name: amounts.measure(name, quantity) for name, quantity in (spec.get("hard") or {}).items()}
        wanted = {name: amount for name, amount in delta.items() if name in hard and amount > 0}
        if not matches(spec, which, new):
            return None
        name = new["metadata"].get("name", "")
        if which == amounts.PODS and at.verb == "create":
            _demand_requests(quota, name, new, frozenset(hard))
        if not wanted:
            return None
        recorded = (quota.object.get("status") or {}).get("used") or {}
        used = {one: amounts.measure(one, recorded[one]) for one in hard if one in recorded}
        if used.keys() != hard.keys() or _exceeded(used, wanted, hard):
            used = await self._count(spec, hard, at)
        exceeded = _exceeded(used, wanted, hard)
        if exceeded:
            why = (
                f"exceeded quota: {quota.object['metadata']['name']}, requested: {_listed(wanted, exceeded)}, "
                f"used: {_listed(used, exceeded)}, limited: {_listed(hard, exceeded)}"
            )
            raise errors.forbidden(which, name, why)
        total = {one: amounts.shown(one, used[one] + wanted.get(one, 0)) for one in hard}
        status = {"hard": dict(spec["hard"]), "used": total}
        return Put(quota.key, self._registry.encode({**quota.object, "status": status}))

    async def _count(self, spec: Object, hard: Mapping[str, int], at: Attributes) -> dict[str, int]:
        """What all objects of the namespace use of what is limited."""
        used = dict.fromkeys(hard, 0)
        kinds = _kinds_of(hard)
        known = [one for which in kinds if (one := self._registry.scheme.preferred(which)) is not None]
        listed = await asyncio.gather(*(self._registry.list(one, at.namespace) for one in known))
        for resource, found in zip(known, listed, strict=True):
            which = resource.group_resource
            for stored in found:
                if matches(spec, which, stored.object):
                    for name, amount in amounts.usage(which, stored.object, now=at.now).items():
                        if name in used:
                            used[name] += amount
        return used


def matches(spec: Object, which: GroupResource, obj: Object) -> bool:
    """Whether a quota with scopes is about an object."""
    scopes: list[Object] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(which == amounts.PODS and _in_scope(one, obj) for one in scopes)


def _in_scope(scope: Object, pod: Object) -> bool:
    spec = pod["spec"]
    match scope.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _matches_class(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _looks_elsewhere(spec.get("affinity") or {})
        case _:
            return False


def _matches_class(scope: Object, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _looks_elsewhere(affinity: Object) -> bool:
    terms: list[Any] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms += found.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = found.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


def _added(which: GroupResource, new: Object, old: Object | None, *, now: float) -> dict[str, int]:
    used = amounts.usage(which, new, now=now)
    before = amounts.usage(which, old, now=now) if old is not None else {}
    return {name: amount - before.get(name, 0) for name, amount in used.items()}


def _demand_requests(quota: Stored, name: str, pod: Object, hard: frozenset[str]) -> None:
    missing = amounts.pod_missing(pod, hard)
    if missing:
        listed = "; ".join(f"{one} for: {','.join(sorted(names))}" for one, names in sorted(missing.items()))
        why = f"failed quota: {quota.object['metadata']['name']}: must specify {listed}"
        raise errors.forbidden(amounts.PODS, name, why)


def _exceeded(used: Mapping[str, int], wanted: Mapping[str, int], hard: Mapping[str, int]) -> list[str]:
    return sorted(name for name, amount in wanted.items() if used.get(name, 0) + amount > hard[name])


def _listed(found: Mapping[str, int], names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts.shown(name, found[name])}" for name in names)


def _kinds_of(hard: Mapping[str, int]) -> list[GroupResource]:
    """The resources that a quota is about."""
    kinds: set[GroupResource] = set()
    for name in hard:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            kinds.add(GroupResource(group, plural))
        elif name.startswith("services"):
            kinds.add(amounts.SERVICES)
        elif name == "requests.storage" or name == "persistentvolumeclaims" or ".storageclass." in name:
            kinds.add(amounts.CLAIMS)
        elif name in {"replicationcontrollers", "resourcequotas", "secrets", "configmaps"}:
            kinds.add(GroupResource("", name))
        else:
            kinds.add(amounts.PODS)
    return sorted(kinds)
