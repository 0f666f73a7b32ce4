"""The certificate authority and token key that the servers of one store share.

The first server creates them: an authority for certificates, and the key that signs service account tokens. They are in
the store, outside of the API, encrypted with the same key file as Secrets. An operator may provide an authority
instead.
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
from rota.store.store_interface import Store

log = logs.get(__name__)

#: No API group can begin with a tilde.
KEY: Final = f"{configuration.TRUST}material"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCa:
    """The authority and the key for tokens."""

    authority: Authority
    account_key: PrivateKey = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedCa:
    """An authority that the operator provides."""

    authority: Authority
    #: Without one, the store's own is used.
    account_key: PrivateKey | None = field(default=None, repr=False)


class _StoredCa(msgspec.Struct, frozen=True, rename="camel"):
    """The stored form: PEM texts."""

    certificate: str
    certificate_key: str
    account_key: str


async def ensure(store: Store, *, now: float, provided: ProvidedCa | None = None) -> ClusterCa:
    """The authority and key of this store's servers, created if missing; `provided` replaces the store's."""
    entry = await store.get(KEY)
    if entry is None:
        await store.create(KEY, msgspec.json.encode(_make(now)))  # the first server wins
        entry = await store.get(KEY)
        assert entry is not None, "it is never deleted"
    material = msgspec.json.decode(entry.value, type=_StoredCa)
    own = keys.from_pem(material.account_key.encode(), source="the store's key for service account tokens")
    if provided is not None:
        shared = ClusterCa(authority=provided.authority, account_key=provided.account_key or own)
    else:
        authority = Authority(material.certificate.encode(), material.certificate_key.encode())
        shared = ClusterCa(authority=authority, account_key=own)
    if shared.authority.not_after - now < YEAR_S:
        log.warning(
            "the cluster's authority ends within a year: provide another one", not_after=shared.authority.not_after
        )
    return shared


async def read_provided_ca(folder: Path) -> ProvidedCa:
    """An operator's authority, `ca.crt` (further trusted roots may follow the first) and `ca.key`.

    A `sa.key` beside them signs service account tokens.
    """
    return await asyncio.to_thread(_read_provided_ca, folder)


def _read_provided_ca(folder: Path) -> ProvidedCa:
    account_key = folder / "sa.key"
    try:
        certificate, key = (folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()
        tokens = account_key.read_bytes() if account_key.exists() else None
    except OSError as error:
        raise KeyMaterialError(
            f"cannot read {error.filename}: {error.strerror}", "name a folder with ca.crt and ca.key"
        ) from None
    return ProvidedCa(
        authority=Authority(certificate, key, source=str(folder / "ca.crt")),
        account_key=None if tokens is None else keys.from_pem(tokens, source=str(account_key)),
    )


def _make(now: float) -> _StoredCa:
    authority = Authority.create(now=now)
    return _StoredCa(
        certificate=authority.certificate_pem.decode(),
        certificate_key=authority.key_pem.decode(),
        account_key=keys.to_pem(keys.generate()).decode(),
    )
