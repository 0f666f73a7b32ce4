"""All subresources with a behaviour of their own, and the kinds that are never stored."""

from collections.abc import Mapping

from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Projection, SubresourceHandler
from rota.apiserver.occupancy.ledger import Ledger
from rota.apiserver.subresources import bindings, explanations
from rota.apiserver.subresources.binder import PODS, Binder
from rota.apiserver.subresources.conversations import PodConversation, PodPortForward, Wires
from rota.apiserver.subresources.eviction import Eviction
from rota.apiserver.subresources.explanations import Door, PodExplain
from rota.apiserver.subresources.logs import LogSource, NoWorkers, PodLog
from rota.apiserver.subresources.scale import CustomScales, ScaleProjection


def handlers(
    ledger: Ledger | None,
    logs: LogSource | None = None,
    explainer: Door | None = None,
    wires: Wires | None = None,
) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
    """By resource and subresource; without a ledger, bindings are not checked against nodes."""
    binder = Binder(ledger)
    explained = {} if explainer is None else {(PODS, explanations.SUBRESOURCE): PodExplain(explainer)}
    return {
        **explained,
        (PODS, "attach"): PodConversation("attach", wires or NoWorkers()),
        (PODS, "binding"): bindings.PodBinding(binder),
        (PODS, "eviction"): Eviction(),
        (PODS, "exec"): PodConversation("exec", wires or NoWorkers()),
        (PODS, "portforward"): PodPortForward(wires or NoWorkers()),
        (PODS, "log"): PodLog(logs or NoWorkers()),
        (bindings.LEGACY, ""): bindings.PodBinding(binder),
        (bindings.BATCHES.group_resource, ""): bindings.BindingBatches(binder),
    }


def projections(custom_scales: CustomScales) -> Mapping[str, Projection]:
    """By subresource."""
    return {"scale": ScaleProjection(custom_scales)}
