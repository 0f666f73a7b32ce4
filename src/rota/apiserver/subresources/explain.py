"""GET of `pods/<name>/explain`: why a pod is on its node, or why it is on none, answered by a scheduler.

The server knows nothing of scheduling. The assembling code sets a scheduler in the `LateBoundExplainer`; a server
without one does not have the subresource, like a stock one. `?node=` asks about one node, `?limit=` for that many.
"""

from dataclasses import replace
from typing import Final, Protocol

from rota.api import errors
from rota.api.identifiers import GroupVersionKind
from rota.api.kinds import Subresource
from rota.api.scheme import Scheme
from rota.apiserver.interfaces import Object, Registry, Reply, SubresourceRequest
from rota.apiserver.subresources.binder import PODS

SUBRESOURCE: Final = "explain"
_KIND: Final = GroupVersionKind("rota.dev", "v1alpha1", "Explanation")
#: The maximum number of nodes.
_MOST: Final = 100_000


class Explainer(Protocol):
    """A scheduler that explains pods."""

    async def explain(self, pod: Object, /, *, node: str, limit: int | None) -> Object:
        """Explain a pod, on one node if one is named, else on up to so many; ApiError if that is not possible."""
        ...


class LateBoundExplainer:
    """Holds the scheduler, once there is one."""

    def __init__(self) -> None:
        self.explainer: Explainer | None = None


class PodExplain:
    """Forwards to the explainer."""

    def __init__(self, late_bound: LateBoundExplainer) -> None:
        self._late_bound: Final = late_bound

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """An Explanation."""
        pod = (await registry.read(registry.resource(PODS), request.at.namespace, request.at.name)).object
        if self._late_bound.explainer is None:
            raise errors.ServiceUnavailable("no scheduler runs here, or not yet; ask again in a moment")
        limit = _limit(request.query.get("limit", ""))
        return Reply(
            object=await self._late_bound.explainer.explain(pod, node=request.query.get("node", ""), limit=limit)
        )


def with_explain(known: Scheme) -> Scheme:
    """The same kinds, with the subresource `explain` of pods."""
    extra = Subresource(name=SUBRESOURCE, kind=_KIND, verbs=("get",))
    return Scheme(
        replace(one, subresources={**one.subresources, SUBRESOURCE: extra}) if one.group_resource == PODS else one
        for one in known
    )


def _limit(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST:
        raise errors.bad_request(f'limit must be a number from 1 to {_MOST}, not "{text}"')
    return int(text)
