"""Bootstrap tokens with which new workers join: `abcdef.0123456789abcdef`, stored as Secrets in kube-system.

The Secret `bootstrap-token-<id>` has the token's expiry and whether it allows authentication. Its user is
`system:bootstrap:<id>`, a member of `system:bootstrappers`, which may request a certificate and little more.
"""

import base64
import hmac
import re
from typing import Final

from rota.api import times
from rota.api.identifiers import GroupResource
from rota.apiserver.authentication.token_subjects import TokenSubjects
from rota.apiserver.authentication.tokens import Rejected, Verified
from rota.apiserver.interfaces import Object, User
from rota.kit.clock import Clock

TYPE: Final = "bootstrap.kubernetes.io/token"
NAMESPACE: Final = "kube-system"
GROUP: Final = "system:bootstrappers"
_SECRETS: Final = GroupResource("", "secrets")
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """A `TokenOrigin` of bootstrap tokens."""

    def __init__(self, directory: TokenSubjects, *, audiences: tuple[str, ...], clock: Clock) -> None:
        self._directory: Final = directory
        self._clock: Final = clock
        self._audiences: Final = audiences

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        """See `TokenOrigin.verify`."""
        parts = _TOKEN.fullmatch(token)
        meant = tuple(one for one in audiences if one in self._audiences)
        if parts is None or not meant:
            return None
        identifier, secret = parts.groups()
        stored = await self._directory.find(_SECRETS, NAMESPACE, f"bootstrap-token-{identifier}")
        if stored is None:
            raise Rejected(f"there is no bootstrap token {identifier}")
        groups = _groups(stored, identifier, secret, now=self._clock.now())
        return Verified(user=User(name=f"system:bootstrap:{identifier}", groups=groups), audiences=meant)


def _groups(obj: Object, identifier: str, secret: str, *, now: float) -> tuple[str, ...]:
    """The groups of a valid token."""
    data = {name: base64.b64decode(value).decode(errors="replace") for name, value in (obj.get("data") or {}).items()}
    if not hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode()):
        raise Rejected(f"not the secret of the bootstrap token {identifier}")
    if obj.get("type") != TYPE or data.get("token-id") != identifier or "deletionTimestamp" in obj["metadata"]:
        raise Rejected(f"the Secret of {identifier} is no bootstrap token, or is being deleted")
    if data.get("usage-bootstrap-authentication") != "true":
        raise Rejected(f"the bootstrap token {identifier} is not for signing in")
    if _has_expired(data.get("expiration", ""), now):
        raise Rejected(f"the bootstrap token {identifier} has expired")
    extra = [group for group in data.get("auth-extra-groups", "").split(",") if group]
    if not all(_EXTRA_GROUP.fullmatch(group) for group in extra):
        raise Rejected(f"the bootstrap token {identifier} names groups that it must not")
    return tuple(dict.fromkeys((GROUP, *extra)))


def _has_expired(expiration: str, now: float) -> bool:
    """Whether it has expired; an unreadable time counts as expired."""
    if not expiration:
        return False
    try:
        return times.parse(expiration) <= now
    except times.TimeError:
        return True
