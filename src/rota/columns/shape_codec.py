"""What a pod's shape was worked out from, as bytes that can be kept and read elsewhere.

`vocabulary.PodInterner` finds shapes by these bytes; here they become a pod again, one that has the same shape. The
order of the parts is the vocabulary's.
"""

from typing import Any

import msgspec

#: Where a pod with a node is, if nobody says; what it is called does not matter to its shape.
_SOMEWHERE = "node"


def document(content: bytes) -> dict[str, Any]:
    """Give a pod, as on the wire, whose shape has this content."""
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
