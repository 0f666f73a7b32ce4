"""All subresources with their own handlers, and the kinds that are never stored."""

from collections.abc import Mapping

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Projection, SubresourceHandler
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard
from rota.apiserver.subresources import bindings, explain
from rota.apiserver.subresources.binder import PODS, Binder
from rota.apiserver.subresources.eviction import Eviction
from rota.apiserver.subresources.explain import LateBoundExplainer, PodExplain
from rota.apiserver.subresources.logs import LogSource, NoWorkers, PodLog
from rota.apiserver.subresources.scale import CustomScales, ScaleProjection
from rota.apiserver.subresources.streaming import PodPortForward, PodStream, WorkerStreams


def handlers(
    overcommit_guard: OvercommitGuard | None,
    logs: LogSource | None = None,
    explainer: LateBoundExplainer | None = None,
    worker_streams: WorkerStreams | None = None,
) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
    """By resource and subresource; without a guard, bindings are not checked against nodes."""
    binder = Binder(overcommit_guard)
    explained = {} if explainer is None else {(PODS, explain.SUBRESOURCE): PodExplain(explainer)}
    return {
        **explained,
        (PODS, "attach"): PodStream("attach", worker_streams or NoWorkers()),
        (PODS, "binding"): bindings.PodBinding(binder),
        (PODS, "eviction"): Eviction(),
        (PODS, "exec"): PodStream("exec", worker_streams or NoWorkers()),
        (PODS, "portforward"): PodPortForward(worker_streams or NoWorkers()),
        (PODS, "log"): PodLog(logs or NoWorkers()),
        (bindings.LEGACY, ""): bindings.PodBinding(binder),
        (bindings.BATCHES.group_resource, ""): bindings.BindingBatches(binder),
    }


def projections(custom_scales: CustomScales) -> Mapping[str, Projection]:
    """By subresource."""
    return {"scale": ScaleProjection(custom_scales)}
