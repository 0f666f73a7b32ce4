"""Taints new nodes as not ready until they report Ready, as `TaintNodesByCondition` does upstream.

Otherwise a node would receive pods from its creation until the node lifecycle controller has processed it. That
controller removes the taint when the node's condition Ready is True; a server without that controller must not set it.
Unlike upstream, a node that is created with Ready True is not tainted.
"""

from typing import ClassVar, Final

from rota.api import meta
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_NODES: Final = GroupResource("", "nodes")
NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NotReadyTaint:
    """Taints new nodes."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Add the taint, unless it is present or not needed."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _NODES:
            return
        if meta.is_condition_true(new, "Ready"):
            return
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any((one.get("key"), one.get("effect")) == tuple(NOT_READY.values()) for one in taints):
            spec["taints"] = [*taints, dict(NOT_READY)]
