"""All subresources with a behaviour of their own, and the kinds that are never stored."""

from collections.abc import Mapping
from typing import Final, NoReturn

from rota.api import errors, gotext
from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Projection, Registry, SubresourceHandler, SubresourceRequest
from rota.apiserver.occupancy.ledger import Ledger
from rota.apiserver.subresources import bindings
from rota.apiserver.subresources.binder import PODS, Binder
from rota.apiserver.subresources.eviction import Eviction
from rota.apiserver.subresources.logs import LogSource, NoWorkers, PodLog
from rota.apiserver.subresources.scale import CustomScales, ScaleProjection

#: Doors of pods that exist upstream and lead nowhere here: running pods keep their size and their containers.
_REFUSED: Final = ("ephemeralcontainers", "resize")


class _Refused:
    """A subresource that is refused by name, as upstream refuses what it does not have."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> NoReturn:
        """Say which verb is not supported on what."""
        at = request.at
        what = f"{at.resource.plural}/{at.subresource}"
        raise errors.MethodNotAllowed(
            f"{at.verb} is not supported on resources of kind {gotext.quote(what)}",
            details=errors.Details(name=at.name, group=at.resource.group, kind=at.resource.plural),
        )


def handlers(
    ledger: Ledger | None, logs: LogSource | None = None
) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
    """By resource and subresource; without a ledger, bindings are not checked against nodes."""
    binder = Binder(ledger)
    return {
        (PODS, "binding"): bindings.PodBinding(binder),
        (PODS, "eviction"): Eviction(),
        (PODS, "log"): PodLog(logs or NoWorkers()),
        (bindings.LEGACY, ""): bindings.PodBinding(binder),
        (bindings.BATCHES.group_resource, ""): bindings.BindingBatches(binder),
        **{(PODS, name): _Refused() for name in _REFUSED},
    }


def projections(custom_scales: CustomScales) -> Mapping[str, Projection]:
    """By subresource."""
    return {"scale": ScaleProjection(custom_scales)}
