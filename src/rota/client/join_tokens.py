"""Bootstrap tokens for joining workers, as Secrets in kube-system: create, list and delete.

A token is an id and a secret, `abcdef.0123456789abcdef`. The id is public and names the token; the secret is shown
once, at its creation.
"""

import base64
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, times
from rota.client.verbs import Client, Object, Selection

SECRETS: Final = ("", "v1", "secrets")
NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
#: Groups of every joining worker besides `system:bootstrappers`.
DEFAULT_GROUPS: Final = ("system:bootstrappers:rota:default-node-token",)
FORM: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
IDENTIFIER: Final = re.compile(r"[a-z0-9]{6}")
_PREFIX: Final = "bootstrap-token-"
_LETTERS: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """A token."""

    identifier: str
    #: Seconds since 1970; None if it does not expire.
    expires: float | None
    groups: tuple[str, ...] = ()
    description: str = ""
    #: Known only at its creation.
    secret: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """The token that a worker presents."""
        return f"{self.identifier}.{self.secret}"


def make(*, now: float, ttl_s: float | None, description: str = "", groups: tuple[str, ...] = ()) -> JoinToken:
    """A new token, not yet stored in the cluster."""
    return JoinToken(
        identifier=_random(6),
        secret=_random(16),
        expires=None if ttl_s is None else now + ttl_s,
        groups=groups or DEFAULT_GROUPS,
        description=description,
    )


async def create(client: Client, token: JoinToken) -> None:
    """Store a token in the cluster."""
    data = {
        "token-id": token.identifier,
        "token-secret": token.secret,
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": ",".join(token.groups),
    }
    if token.description:
        data["description"] = token.description
    if token.expires is not None:
        data["expiration"] = times.format_time(token.expires)
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _PREFIX + token.identifier, "namespace": NAMESPACE},
        "type": TYPE,
        "stringData": data,
    }
    await client.create(SECRETS, body)


async def list_tokens(client: Client) -> list[JoinToken]:
    """All tokens without their secrets; those that expire first come first."""
    found = await client.list(SECRETS, namespace=NAMESPACE, selection=Selection(fields=f"type={TYPE}"))
    tokens = [_read(secret) for secret in found.items]
    return sorted(tokens, key=lambda one: (one.expires is None, one.expires or 0.0, one.identifier))


async def delete(client: Client, identifier: str) -> bool:
    """Delete a token; False if there is none."""
    try:
        await client.delete(SECRETS, _PREFIX + identifier, namespace=NAMESPACE)
    except errors.NotFound:
        return False
    return True


def _read(secret: Object) -> JoinToken:
    encoded = secret.get("data") or {}
    data = {key: base64.b64decode(value).decode(errors="replace") for key, value in encoded.items()}
    try:
        expires = times.parse(data["expiration"]) if data.get("expiration") else None
    except times.TimeError:
        expires = 0.0  # the server treats it as expired
    return JoinToken(
        identifier=secret["metadata"]["name"].removeprefix(_PREFIX),
        expires=expires,
        groups=tuple(group for group in data.get("auth-extra-groups", "").split(",") if group),
        description=data.get("description", ""),
    )


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
