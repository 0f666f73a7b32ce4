"""New nodes are tainted as not ready until they say that they are ready, as `TaintNodesByCondition` does upstream.

Otherwise a node would receive pods from its creation until the node lifecycle controller has looked at it. That
controller takes the taint away when the node's condition Ready is True; a server that none runs beside must not set it.
Other than upstream, a node that is created with Ready True is left alone: there is nothing to wait for.
"""

from typing import Final

from rota.api import meta
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_NODES: Final = GroupResource("", "nodes")
NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NotReadyTaint:
    """Taints new nodes."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Add the taint, unless it is there or not called for."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _NODES:
            return
        if meta.is_condition_true(new, "Ready"):
            return
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any((one.get("key"), one.get("effect")) == tuple(NOT_READY.values()) for one in taints):
            spec["taints"] = [*taints, dict(NOT_READY)]
