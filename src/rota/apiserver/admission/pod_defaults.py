"""Pod defaults that depend on the cluster: tolerations of lost nodes for five minutes."""

from typing import ClassVar, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_PODS: Final = GroupResource("", "pods")
_LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PATIENCE_S: Final = 300


class DefaultTolerations:
    """Pods tolerate a lost node for a while, unless they say otherwise."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Add missing tolerations."""
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


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {"", "NoExecute"}
