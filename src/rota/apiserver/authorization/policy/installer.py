"""Writes the default roles and bindings to the store when a server starts, and repairs existing ones.

They are written in a few transactions, without the usual write path: a server that starts on an empty store should not
spend its time on 150 creations. Several servers may start at once; one that loses a race reads again.

Existing objects are reconciled as upstream: missing rules and subjects are added, additional ones stay, and an object
with the annotation autoupdate=false is left alone. A binding to another role than it should have is replaced, since a
roleRef is immutable.
"""

import asyncio
import random
import uuid
from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta, times
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.authorization import rules
from rota.apiserver.authorization.policy import objects
from rota.apiserver.authorization.policy.objects import AUTO_UPDATE
from rota.apiserver.interfaces import Object, Registry, Stored
from rota.kit import logs
from rota.store.store_interface import Precondition, Put, Refused, Transaction


def reconciled(expected: Object, existing: Object) -> Object | None:
    """The object as it should be stored; None if it needs no change."""
    if meta.annotations(existing).get(AUTO_UPDATE) == "false":
        return None
    metadata = {**existing["metadata"]}
    for part in ("labels", "annotations"):
        metadata[part] = {**expected["metadata"][part], **(metadata.get(part) or {})}
    content = _binding(expected, existing) if "roleRef" in expected else _role(expected, existing)
    new = {**existing, **content, "metadata": metadata}
    return None if new == existing else new


def _role(expected: Object, existing: Object) -> Object:
    if "aggregationRule" in expected:
        return {"aggregationRule": _aggregation(expected["aggregationRule"], existing.get("aggregationRule") or {})}
    missing = rules.uncovered(rules.from_role(existing), rules.from_role(expected))
    if not missing:
        return {}
    return {"rules": [*(existing.get("rules") or ()), *(rule.to_wire() for rule in rules.joined(missing))]}


def _aggregation(expected: Mapping[str, Any], existing: Mapping[str, Any]) -> Object:
    present = existing.get("clusterRoleSelectors") or []
    return {
        "clusterRoleSelectors": [*present, *(one for one in expected["clusterRoleSelectors"] if one not in present)]
    }


def _binding(expected: Object, existing: Object) -> Object:
    if existing.get("roleRef") != expected["roleRef"]:
        return {"roleRef": expected["roleRef"], "subjects": expected.get("subjects") or []}
    present = existing.get("subjects") or []
    missing = [one for one in expected.get("subjects") or () if one not in present]
    return {"subjects": [*present, *missing]} if missing else {}


log = logs.get(__name__)

_GROUP: Final = "rbac.authorization.k8s.io"
_PLURALS: Final = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
#: etcd allows 128 operations in a transaction, preconditions included.
_TOGETHER: Final = 50
_TRIES: Final = 8


async def install(registry: Registry, rng: random.Random) -> None:
    """Ensure that every default role and binding is in the store."""
    resources = [registry.resource(GroupResource(_GROUP, plural)) for plural in _PLURALS]
    by_kind = {resource.kind: resource for resource in resources}
    for _ in range(_TRIES):
        listed = await asyncio.gather(*(registry.list(resource) for resource in resources))
        present = {one.key: one for found in listed for one in found}
        now = times.format_time(registry.clock.now())
        steps = [
            step
            for one in objects.all_defaults()
            if (step := _step(one, by_kind[one["kind"]], present, now=now, rng=rng))
        ]
        outcomes = [
            await registry.store.commit(_transaction(steps[start : start + _TOGETHER]))
            for start in range(0, len(steps), _TOGETHER)
        ]
        if not any(isinstance(outcome, Refused) for outcome in outcomes):
            return
    log.warning(
        "default roles not reconciled", remedy="another client changes them at the same time; restart the server"
    )


def _step(
    expected: Object, resource: ResourceType, present: dict[str, Stored], *, now: str, rng: random.Random
) -> tuple[Put, Precondition] | None:
    key = stored_form.key(resource, meta.namespace(expected), meta.name(expected))
    stored = present.get(key)
    if stored is None:
        uid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        metadata = {**expected["metadata"], "uid": uid, "creationTimestamp": now}
        return Put(key, stored_form.encode({**expected, "metadata": metadata}, resource)), Precondition(key, revision=0)
    new = reconciled(expected, stored.object)
    return (
        None
        if new is None
        else (Put(key, stored_form.encode(new, resource)), Precondition(key, revision=stored.revision))
    )


def _transaction(steps: list[tuple[Put, Precondition]]) -> Transaction:
    return Transaction(tuple(put for put, _ in steps), tuple(guard for _, guard in steps))
