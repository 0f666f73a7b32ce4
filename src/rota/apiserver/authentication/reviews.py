"""TokenReview, for components that receive the cluster's tokens, and SelfSubjectReview."""

from typing import Any, Final

from rota.api import errors, times
from rota.api.identifiers import GroupResource
from rota.apiserver.authentication.tokens import Rejected, Tokens
from rota.apiserver.interfaces import Object, Registry, Reply, SubresourceRequest, User

_GROUP: Final = "authentication.k8s.io"
TOKEN_REVIEWS: Final = GroupResource(_GROUP, "tokenreviews")
SELF_REVIEWS: Final = GroupResource(_GROUP, "selfsubjectreviews")
#: The only message about an invalid token.
_NO_GOOD: Final = "invalid bearer token"


class TokenReviews:
    """Which user a token belongs to."""

    def __init__(self, tokens: Tokens, *, audiences: tuple[str, ...]) -> None:
        """`audiences` are the default of a review that names none."""
        self._tokens: Final = tokens
        self._audiences: Final = audiences

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """See `SubresourceHandler.handle`."""
        body = request.body
        assert body is not None, "reviews are posted"
        spec: dict[str, Any] = body.get("spec") or {}
        token = spec.get("token") or ""
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        wanted = tuple(spec.get("audiences") or ())
        status: Object
        try:
            found = await self._tokens.verify(token, wanted or self._audiences)
        except Rejected:
            status = {"user": {}, "error": _NO_GOOD}
        else:
            groups = (*found.user.groups, "system:authenticated")
            user = {**user_info(found.user), "groups": list(dict.fromkeys(groups))}
            status = {"authenticated": True, "user": user, "audiences": list(found.audiences)}
        metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name != "namespace"}
        return Reply(object={**body, "metadata": metadata, "status": status}, code=201)


class SelfReviews:
    """Which user sent the request."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """See `SubresourceHandler.handle`."""
        assert request.body is not None, "reviews are posted"
        metadata = {"creationTimestamp": times.format_time(request.at.now)}
        status = {"userInfo": user_info(request.at.user)}
        return Reply(object={**request.body, "metadata": metadata, "status": status}, code=201)


def user_info(user: User) -> Object:
    """A user as in API objects, without empty fields."""
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return {name: value for name, value in info.items() if value}
