"""Which pods a cordoned node takes: only those that tolerate it, so that a drain finds all pods to evict. Pure."""

from collections.abc import Mapping
from typing import Any, Final

Object = Mapping[str, Any]
#: The taint of cordoned nodes.
_TAINT: Final = "node.kubernetes.io/unschedulable"


def tolerated_by(pod: Object) -> bool:
    """Whether a pod may be bound to a cordoned node."""
    return any(map(_tolerates, (pod.get("spec") or {}).get("tolerations") or ()))


def _tolerates(toleration: Object) -> bool:
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if (toleration.get("effect") or "NoSchedule") != "NoSchedule":
        return False
    if not key:
        return bool(operator == "Exists")
    return bool(key == _TAINT and (operator == "Exists" or not toleration.get("value")))
