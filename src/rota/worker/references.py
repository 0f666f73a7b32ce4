"""Objects that pods refer to: ConfigMaps, Secrets, and service account tokens.

A worker may read only the objects of its own pods. Only tokens are cached: a token is requested again after four fifths
of its lifetime, or after a day, as the kubelet does.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from rota.api import errors, meta, times
from rota.client.verbs import Client, Object
from rota.kit.clock import Clock

_CONFIG_MAPS: Final = ("", "v1", "configmaps")
_SECRETS: Final = ("", "v1", "secrets")
_ACCOUNTS: Final = ("", "v1", "serviceaccounts")
_LONGEST_USE_S: Final = 24 * 3600.0
_USED_PART: Final = 0.8


class ConfigMap(NamedTuple):
    """The content of a ConfigMap."""

    texts: Mapping[str, str]
    binaries: Mapping[str, bytes]


class TokenWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A token request of a pod."""

    namespace: str
    account: str
    pod: str
    uid: str
    audience: str
    lifetime_s: int


class References(Protocol):
    """Looks up the objects that pods refer to."""

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """A ConfigMap; None if there is none."""
        ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The values of a Secret; None if there is none."""
        ...

    async def token(self, wanted: TokenWanted) -> str:
        """A token that is valid for a while."""
        ...


class _Token(NamedTuple):
    text: str
    renew_at: float
    expires_at: float


class ApiReferences:
    """Looks up objects in the API."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._tokens: Final[dict[TokenWanted, _Token]] = {}

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """See `References.config_map`."""
        found = await self._find(_CONFIG_MAPS, namespace, name)
        return None if found is None else ConfigMap(found.get("data") or {}, _decoded(found.get("binaryData")))

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """See `References.secret`."""
        found = await self._find(_SECRETS, namespace, name)
        return None if found is None else _decoded(found.get("data"))

    async def token(self, wanted: TokenWanted) -> str:
        """See `References.token`."""
        now = self._clock.now()
        held = self._tokens.get(wanted)
        if held is not None and now < held.renew_at:
            return held.text
        spec: dict[str, Any] = {
            "expirationSeconds": wanted.lifetime_s,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": wanted.pod, "uid": wanted.uid},
        }
        if wanted.audience:
            spec["audiences"] = [wanted.audience]
        answer = await self._client.create(
            _ACCOUNTS,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            namespace=wanted.namespace,
            name=wanted.account,
            subresource="token",
        )
        status = answer["status"]
        expires_at = times.parse(status["expirationTimestamp"])
        lifetime = expires_at - now
        for gone in [one for one, token in self._tokens.items() if now >= token.expires_at]:
            del self._tokens[gone]
        self._tokens[wanted] = _Token(status["token"], now + min(lifetime * _USED_PART, _LONGEST_USE_S), expires_at)
        return str(status["token"])

    async def _find(self, target: tuple[str, str, str], namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(target, name, namespace=namespace)
        except errors.NotFound:
            return None


def token_of(pod: Object, source: Mapping[str, Any]) -> TokenWanted:
    """The token request of a pod's volume, with the API's defaults."""
    return TokenWanted(
        namespace=meta.namespace(pod),
        account=(pod.get("spec") or {}).get("serviceAccountName") or "default",
        pod=meta.name(pod),
        uid=meta.uid(pod),
        audience=source.get("audience") or "",
        lifetime_s=source.get("expirationSeconds") or 3600,
    )


def _decoded(values: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (values or {}).items()}
