"""What a binding uses of a federated quota: requests times replicas, or times clusters for sets of components."""

from collections.abc import Mapping
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
