"""What the servers of one store share so that they trust each other's certificates and tokens.

The first server makes it: an authority for certificates, and the key that service account tokens are signed with. It
lies in the store, where every server finds it, outside of all that the API shows, and is sealed with the same key file
as Secrets are. An operator who has an authority provides that instead.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from rota.apiserver.encryption import configuration
from rota.kit import logs
from rota.pki import keys
from rota.pki.authorities import YEAR_S, Authority
from rota.pki.keys import KeyMaterialError, PrivateKey
from rota.store.contract import Store

log = logs.get(__name__)

#: No API group can begin with a tilde.
KEY: Final = f"{configuration.TRUST}material"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The authority and the key for tokens."""

    authority: Authority
    account_key: PrivateKey = field(repr=False)


class _Material(msgspec.Struct, frozen=True, rename="camel"):
    """As it lies in the store: PEM texts."""

    certificate: str
    certificate_key: str
    account_key: str


async def ensure(store: Store, *, now: float, provided: Authority | None = None) -> Trust:
    """What this store's servers share, made if there is none; `provided` takes the place of the store's authority."""
    entry = await store.get(KEY)
    if entry is None:
        await store.create(KEY, msgspec.json.encode(_make(now)))  # whoever else is faster wins
        entry = await store.get(KEY)
        assert entry is not None, "nobody deletes it"
    material = msgspec.json.decode(entry.value, type=_Material)
    authority = provided or Authority(material.certificate.encode(), material.certificate_key.encode())
    if authority.not_after - now < YEAR_S:
        log.warning("the cluster's authority ends within a year: provide another one", not_after=authority.not_after)
    account_key = keys.from_pem(material.account_key.encode(), source="the store's key for service account tokens")
    return Trust(authority=authority, account_key=account_key)


async def read_authority(folder: Path) -> Authority:
    """An operator's own authority: `ca.crt` (further roots to trust may follow the first) and `ca.key`."""
    return await asyncio.to_thread(_read_authority, folder)


def _read_authority(folder: Path) -> Authority:
    try:
        certificate, key = (folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()
    except OSError as error:
        raise KeyMaterialError(
            f"cannot read {error.filename}: {error.strerror}", "name a folder with ca.crt and ca.key"
        ) from None
    return Authority(certificate, key, source=str(folder / "ca.crt"))


def _make(now: float) -> _Material:
    authority = Authority.create(now=now)
    return _Material(
        certificate=authority.certificate_pem.decode(),
        certificate_key=authority.key_pem.decode(),
        account_key=keys.to_pem(keys.generate()).decode(),
    )
