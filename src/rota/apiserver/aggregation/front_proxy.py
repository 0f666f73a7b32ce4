"""The front proxy: how this server proves to the servers of APIs that the user it names is authenticated.

An authority of its own signs the client certificate, so a certificate of the cluster CA, which any user may have, is
worth nothing there. It is in the store beside the cluster CA. Servers of APIs read what to trust from the ConfigMap
`kube-system/extension-apiserver-authentication`, as with a stock server.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.api.users import ADMINISTRATOR
from rota.apiserver.encryption import configuration
from rota.apiserver.interfaces import Attributes, Object, User
from rota.apiserver.registry.objects import ObjectRegistry
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Identity, Subject
from rota.store.store_interface import Store

#: No API group can begin with a tilde.
KEY: Final = f"{configuration.TRUST}front-proxy"
CLIENT: Final = "front-proxy-client"
_LIFETIME_S: Final = 30 * 86_400.0
_NAMESPACE, _NAME = "kube-system", "extension-apiserver-authentication"
_CONFIG_MAPS: Final = GroupResource("", "configmaps")


class _StoredAuthority(msgspec.Struct, frozen=True, rename="camel"):
    """The stored form: PEM texts."""

    certificate: str
    certificate_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxySettings:
    """What the front proxy of a server needs."""

    authority: Authority
    #: The authorities of client certificates that this server accepts (PEM).
    client_authorities: bytes


async def ensure(store: Store, *, now: float) -> Authority:
    """The authority of this store's front proxies, created if missing."""
    entry = await store.get(KEY)
    if entry is None:
        made = Authority.create(now=now, name="front-proxy-ca")
        stored = _StoredAuthority(made.certificate_pem.decode(), made.key_pem.decode())
        await store.create(KEY, msgspec.json.encode(stored))  # the first server wins
        entry = await store.get(KEY)
        assert entry is not None, "it is never deleted"
    material = msgspec.json.decode(entry.value, type=_StoredAuthority)
    return Authority(material.certificate.encode(), material.certificate_key.encode(), source="the front proxy's CA")


class FrontProxyIdentity:
    """The client certificate of one server, renewed when half of its time is over."""

    def __init__(self, authority: Authority) -> None:
        self._authority: Final = authority
        self._issued: tuple[Identity, float] | None = None

    def at(self, now: float) -> Identity:
        """The certificate to present now; the same object until it is renewed."""
        if self._issued is None or now >= self._issued[1]:
            identity = self._authority.issue(
                Subject(common_name=CLIENT), purpose=Purpose.CLIENT, now=now, lifetime_s=_LIFETIME_S
            )
            self._issued = identity, now + _LIFETIME_S / 2
        return self._issued[0]


def remote_user(user: User) -> Iterator[tuple[str, str]]:
    """The headers that name the user of a request."""
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in sorted(user.extra.items()):
        for value in values:
            yield f"X-Remote-Extra-{quote(key.lower(), safe='')}", value


def published(settings: FrontProxySettings) -> Mapping[str, str]:
    """What servers of APIs trust: the data of the ConfigMap."""
    return {
        "client-ca-file": settings.client_authorities.decode(),
        "requestheader-allowed-names": json.dumps([CLIENT]),
        "requestheader-client-ca-file": settings.authority.certificate_pem.decode(),
        "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
        "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
        "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
        "requestheader-username-headers": json.dumps(["X-Remote-User"]),
    }


async def publish(registry: ObjectRegistry, settings: FrontProxySettings) -> None:
    """Write the ConfigMap unless it is there with these data; other data in it stay."""
    resource, data = registry.resource(_CONFIG_MAPS), published(settings)
    at = Attributes(
        user=ADMINISTRATOR,
        verb="create",
        resource=resource,
        now=registry.clock.now(),
        namespace=_NAMESPACE,
        name=_NAME,
        field_manager="rota-apiserver",
    )
    present = await registry.find(resource, _NAMESPACE, _NAME)
    if present is None:
        metadata = {"name": _NAME, "namespace": _NAMESPACE}
        new: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        with contextlib.suppress(errors.AlreadyExists):  # another server may start at the same time
            await registry.create(at, new)
        return
    if not data.items() <= (present.object.get("data") or {}).items():
        await registry.rewrite(at, present, lambda live: {**live, "data": {**(live.get("data") or {}), **data}})
