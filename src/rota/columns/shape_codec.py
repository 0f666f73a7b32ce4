"""The content of a pod's shape as bytes, which can be stored and decoded elsewhere.

`pod_interner.PodInterner` finds shapes by these bytes; here they become a pod again, with the same shape. The order of
the parts is the interner's.
"""

from typing import Any

import msgspec

#: The node of a decoded pod with a node; its name does not matter to the shape.
_SOMEWHERE = "node"


def document(content: bytes) -> dict[str, Any]:
    """A pod, as on the wire, whose shape has this content."""
    who, runs, goes, ranks, status = msgspec.msgpack.decode(content)
    namespace, labels, terminating, owner, bound = who
    containers, init_containers, overhead, resources, volumes, images = runs
    node_selector, affinity, tolerations, constraints = goes
    priority, preemption_policy, scheduler_name, gates = ranks
    metadata = {
        "name": "pod",
        "namespace": namespace,
        "labels": labels,
        "deletionTimestamp": "1970-01-01T00:00:00Z" if terminating else None,
        "ownerReferences": [owner] if owner else None,
    }
    pulled = [{"name": f"image-{number}", "image": {"reference": name}} for number, name in enumerate(images)]
    spec = {
        "nodeName": _SOMEWHERE if bound else None,
        "containers": containers,
        "initContainers": init_containers,
        "overhead": overhead,
        "resources": resources,
        "volumes": [*volumes, *pulled],
        "nodeSelector": node_selector,
        "affinity": affinity,
        "tolerations": tolerations,
        "topologySpreadConstraints": constraints,
        "priority": priority,
        "preemptionPolicy": preemption_policy,
        "schedulerName": scheduler_name,
        "schedulingGates": gates,
    }
    known = {"metadata": metadata, "spec": spec}
    if status is not None:
        keys = ("containerStatuses", "initContainerStatuses", "allocatedResources", "resources", "conditions")
        known["status"] = dict(zip(keys, status, strict=True))
    return {section: _present(values) for section, values in known.items()}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
