"""Questions about the asker's own rights, answered as befits a server where everybody may do everything.

`kubectl auth can-i` posts these; nothing is stored.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Registry, Reply, SubresourceHandler, SubresourceRequest

_AUTHORIZATION: Final = "authorization.k8s.io"
_ALLOWED: Final = {"allowed": True, "reason": "everybody is the administrator of this server"}
_EVERYTHING: Final = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


class _Constant:
    """A review that always has the same outcome."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status: Final = status

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The review with its outcome."""
        assert request.body is not None, "reviews are posted"
        return Reply(object={**request.body, "status": dict(self._status)}, code=201)


HANDLERS: Final[Mapping[tuple[GroupResource, str], SubresourceHandler]] = {
    (GroupResource(_AUTHORIZATION, "selfsubjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "subjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "localsubjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "selfsubjectrulesreviews"), ""): _Constant(_EVERYTHING),
}
