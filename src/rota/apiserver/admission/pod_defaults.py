"""What a pod is given because of where it is: five minutes' patience with lost nodes, and an account.

No token is mounted: accounts have names here, and no secrets of their own.
"""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.admission.node_capacity import MIRROR
from rota.apiserver.interfaces import Attributes, Object

_PODS: Final = GroupResource("", "pods")
_LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PATIENCE_S: Final = 300
_DEFAULT_ACCOUNT: Final = "default"


class DefaultTolerations:
    """Pods stay on a node that is lost for a while, unless they say otherwise."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Add what is missing."""
        if new is None or at.subresource or at.resource.group_resource != _PODS:
            return
        spec = new["spec"]
        for key in _LOST:
            tolerations = spec.get("tolerations") or []
            if not any(_tolerates(one, key) for one in tolerations):
                patience = {
                    "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE_S,
                }  # fmt: skip
                spec["tolerations"] = [*tolerations, patience]


class DefaultAccount:
    """Pods run as somebody."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Name the default account; mirror pods have none."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _PODS:
            return
        if MIRROR not in (new["metadata"].get("annotations") or {}) and not new["spec"].get("serviceAccountName"):
            new["spec"]["serviceAccountName"] = new["spec"]["serviceAccount"] = _DEFAULT_ACCOUNT


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {"", "NoExecute"}
