"""Federated quotas: what bindings use of them, and whether a binding may use more.

A binding uses requests times replicas, or times clusters for sets of components.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from rota.api import quantities, resources
from rota.federation import bindings

Object: TypeAlias = Mapping[str, Any]


def usage(spec: Object) -> dict[str, int]:
    """By resource; CPU in thousandths, the rest in whole units."""
    total: dict[str, quantities.Quantity] = {}
    components = spec.get("components") or ()
    if components:
        factor = len(bindings.targets(spec))
        parts = [(part.get("replicaRequirements"), int(part.get("replicas") or 0) * factor) for part in components]
    else:
        parts = [(spec.get("replicaRequirements"), bindings.sum_of_replicas(bindings.targets(spec)))]
    for requirements, count in parts:
        for name, quantity in ((requirements or {}).get("resourceRequest") or {}).items():
            amount = quantities.from_wire(quantity) * count
            total[name] = total[name] + amount if name in total else amount
    return {
        name: amount.milli_value() if name == resources.CPU else amount.value()
        for name, amount in total.items()
        if amount
    }


def total(specs: Iterable[Object]) -> dict[str, int]:
    """What several bindings use together, in the units of `usage`."""
    found: dict[str, int] = {}
    for spec in specs:
        for name, amount in usage(spec).items():
            found[name] = found.get(name, 0) + amount
    return found


def written(used: Mapping[str, int], overall: Object) -> dict[str, str]:
    """Amounts of the resources that a quota limits, as quantities."""
    return {name: _quantity(name, used.get(name, 0)) for name in sorted(overall)}


def added(parts: Iterable[Object], overall: Object) -> dict[str, str]:
    """The sum of quantities, of the resources that a quota limits."""
    found: dict[str, int] = {}
    for part in parts:
        for name, quantity in part.items():
            if name in overall:
                found[name] = found.get(name, 0) + units(name, quantity)
    return written(found, overall) if found else {}


def exceeded(quota: Object, others: Iterable[Object], before: Object, after: Object) -> str:
    """Why a binding may not change from one spec to another beside the others of its namespace; empty if it may.

    What does not use more than before is always allowed.
    """
    overall: Object = (quota.get("spec") or {}).get("overall") or {}
    used, former, wanted = total(others), usage(before), usage(after)
    name = "/".join(filter(None, ((quota.get("metadata") or {}).get(part) for part in ("namespace", "name"))))
    for resource in sorted(overall):
        amount = wanted.get(resource, 0)
        if amount > former.get(resource, 0) and used.get(resource, 0) + amount > units(resource, overall[resource]):
            asked = _quantity(resource, used.get(resource, 0) + amount)
            return (
                f"FederatedResourceQuota({name}) exceeded for resource {resource}: requested sum {asked}, "
                f"limit {overall[resource]}."
            )
    return ""


def units(resource: str, quantity: Any) -> int:
    """A quantity in the units of `usage`."""
    found = quantities.from_wire(quantity)
    return found.milli_value() if resource == resources.CPU else found.value()


def _quantity(resource: str, amount: int) -> str:
    if resource == resources.CPU:
        return str(quantities.from_milli(amount))
    binary = resource in (resources.MEMORY, resources.EPHEMERAL_STORAGE)
    return str(quantities.from_value(amount, quantities.Format.BINARY_SI if binary else quantities.Format.DECIMAL_SI))
