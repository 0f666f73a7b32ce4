"""GET of `pods/<name>/explain`: why a pod is where it is, or why it is nowhere, told by a scheduler.

The server knows nothing of scheduling. Whoever puts the parts together puts a scheduler behind the `Door`; a server
without one has no such subresource, and looks like a stock one. `?node=` asks about one node, `?limit=` for that many.
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
#: As many nodes as anybody can want to read about.
_MOST: Final = 100_000


class Explainer(Protocol):
    """A scheduler that can be asked."""

    async def explain(self, pod: Object, /, *, node: str, limit: int | None) -> Object:
        """Explain a pod, on one node if one is named, else on up to so many; an ApiError if that cannot be done."""
        ...


class LateBoundExplainer:
    """Where a scheduler will be, once there is one."""

    def __init__(self) -> None:
        self.explainer: Explainer | None = None


class PodExplain:
    """Asks whoever is behind the door."""

    def __init__(self, door: LateBoundExplainer) -> None:
        self._door: Final = door

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """An Explanation."""
        pod = (await registry.read(registry.resource(PODS), request.at.namespace, request.at.name)).object
        if self._door.explainer is None:
            raise errors.ServiceUnavailable("no scheduler runs here, or not yet; ask again in a moment")
        limit = _limit(request.query.get("limit", ""))
        return Reply(object=await self._door.explainer.explain(pod, node=request.query.get("node", ""), limit=limit))


def with_explain(known: Scheme) -> Scheme:
    """The same kinds, with pods that can be explained."""
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
