"""POST of `whatifs` of `rota.dev`: what would happen in the cluster if something were different. Nothing is stored.

The server knows nothing of scheduling. The assembling code sets the source of the answers in `LateBoundWhatIf`; a
server that was assembled without one does not have the kind. An answer shows all nodes and pods, so only the
administrator and users with the role `rota:what-if` may ask.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from rota.api import errors
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Object, Registry, Reply, SubresourceRequest

WHAT_IFS: Final = ResourceType(
    group="rota.dev",
    version="v1alpha1",
    kind="WhatIf",
    plural="whatifs",
    namespaced=False,
    verbs=("create",),
    model="rota_v1alpha1.WhatIf",
)


class WhatIfSource(Protocol):
    """Answers questions."""

    async def answer(self, spec: Mapping[str, Any], /) -> Object:
        """The status for a spec; ApiError if there is none."""
        ...


class LateBoundWhatIf:
    """Holds the source, once there is one."""

    def __init__(self) -> None:
        self.source: WhatIfSource | None = None


class WhatIfs:
    """Forwards to the source."""

    def __init__(self, late_bound: LateBoundWhatIf) -> None:
        self._late_bound: Final = late_bound

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The question with its answer."""
        body = request.body
        assert body is not None, "questions are posted"
        if self._late_bound.source is None:
            raise errors.service_unavailable("no scheduler runs here, or not yet; ask again in a moment")
        status = await self._late_bound.source.answer(body.get("spec") or {})
        return Reply(object={**body, "status": status}, code=201)
