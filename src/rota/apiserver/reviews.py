"""Questions about the asker's own rights, answered as befits a server where everybody may do everything.

`kubectl auth can-i` and `kubectl auth whoami` post these; nothing is stored.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Object, Registry, Reply, SubresourceHandler, SubresourceRequest, User

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


class _WhoAmI:
    """A review of the asker."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The user as the server knows it."""
        assert request.body is not None, "reviews are posted"
        return Reply(object={**request.body, "status": {"userInfo": _user_info(request.at.user)}}, code=201)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return {name: value for name, value in info.items() if value}


HANDLERS: Final[Mapping[tuple[GroupResource, str], SubresourceHandler]] = {
    (GroupResource(_AUTHORIZATION, "selfsubjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "subjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "localsubjectaccessreviews"), ""): _Constant(_ALLOWED),
    (GroupResource(_AUTHORIZATION, "selfsubjectrulesreviews"), ""): _Constant(_EVERYTHING),
    (GroupResource("authentication.k8s.io", "selfsubjectreviews"), ""): _WhoAmI(),
}
