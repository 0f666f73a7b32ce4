"""All subresources with a behaviour of their own, and the kinds that are never stored."""

from collections.abc import Mapping

from rota.api.identifiers import GroupResource
from rota.apiserver.contract import SubresourceHandler
from rota.apiserver.occupancy.ledger import Ledger
from rota.apiserver.subresources import bindings
from rota.apiserver.subresources.binder import PODS, Binder


def handlers(ledger: Ledger | None) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
    """By resource and subresource; without a ledger, bindings are not checked against nodes."""
    binder = Binder(ledger)
    return {
        (PODS, "binding"): bindings.PodBinding(binder),
        (bindings.LEGACY, ""): bindings.PodBinding(binder),
        (bindings.BATCHES.group_resource, ""): bindings.BindingBatches(binder),
    }
