"""Encrypted values: AES-256-GCM under a named key, bound to their storage key.

    rota:enc:1:<key's name>:<salt, 16 bytes><nonce, 12 bytes><ciphertext and tag>

The storage key is authenticated along with the value, so that an attacker with write access to the database cannot
replace one secret by another. A keyring encrypts with a key derived from the named key by a random salt, and counts its
nonces: so no nonce is ever used twice under one key, for any number of processes and writes.
"""

import functools
import itertools
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rota.store import errors

MARK: Final = b"rota:enc:1:"
KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class KeyMissing(errors.StoreError):
    """A value is encrypted with a key that is not in the key file."""

    def __init__(self, place: str, name: str, source: str) -> None:
        super().__init__(
            f"{place} is encrypted with the key {name!r}, which is not in {source}", "put that key back into the file"
        )
        self.name = name


class Unopenable(errors.StoreError):
    """A value cannot be decrypted with the key of that name."""

    def __init__(self, place: str, name: str, source: str) -> None:
        super().__init__(
            f"{place} does not open with the key {name!r} of {source}",
            "either another key had that name when it was written, or its bytes were changed or moved",
        )
        self.name = name


@dataclass(frozen=True, slots=True)
class Key:
    """A named secret."""

    name: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a key's name is up to 63 letters, digits, '.', '_' or '-', not {self.name!r}")
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"the key {self.name!r} has {len(self.secret)} bytes, not {KEY_BYTES}")


class Keyring:
    """Keys by name. The first encrypts, each decrypts its own values; without a first one, values stay plain."""

    def __init__(self, keys: Sequence[Key], *, source: str, plain: bool = False) -> None:
        """`source` is where the keys come from, for messages. With `plain`, they only decrypt."""
        self._keys: Final = {key.name: key.secret for key in keys}
        self._source: Final = source
        self._derived: Final = functools.lru_cache(maxsize=1024)(self._derive)
        self.primary: Final[str | None] = None if plain or not keys else keys[0].name
        self._salt: Final = secrets.token_bytes(_SALT_BYTES)
        self._numbers: Final = itertools.count()

    @property
    def names(self) -> tuple[str, ...]:
        """All keys, the one that encrypts first."""
        return tuple(self._keys)

    def seal(self, place: str, value: bytes) -> bytes:
        """The value as it is stored at a storage key."""
        if self.primary is None:
            return value
        nonce = next(self._numbers).to_bytes(_NONCE_BYTES, "big")
        sealed = self._derived(self.primary, self._salt).encrypt(nonce, value, place.encode())
        return b"%b%b:%b%b%b" % (MARK, self.primary.encode(), self._salt, nonce, sealed)

    def open(self, place: str, value: bytes) -> bytes:
        """The decrypted value; a plain one is returned as it is. KeyMissing, Unopenable."""
        name = sealed_with(value)
        if name is None:
            return value
        if name not in self._keys:
            raise KeyMissing(place, name, self._source)
        salt_at = len(MARK) + len(name) + 1
        nonce_at = salt_at + _SALT_BYTES
        body_at = nonce_at + _NONCE_BYTES
        try:
            cipher = self._derived(name, value[salt_at:nonce_at])
            return cipher.decrypt(value[nonce_at:body_at], value[body_at:], place.encode())
        except (InvalidTag, ValueError):
            raise Unopenable(place, name, self._source) from None

    def _derive(self, name: str, salt: bytes) -> AESGCM:
        derivation = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=MARK)
        return AESGCM(derivation.derive(self._keys[name]))


class Vault:
    """Which keyring is for which storage keys; everything else is not encrypted."""

    def __init__(self, rings: Mapping[str, Keyring]) -> None:
        """`rings` by prefixes of storage keys, which are those of whole resources."""
        self.rings: Final = rings
        self.prefixes: Final = tuple(rings)

    def ring(self, place: str) -> Keyring | None:
        """The keyring for a storage key, if it has one."""
        if not place.startswith(self.prefixes):
            return None
        return next(ring for prefix, ring in self.rings.items() if place.startswith(prefix))

    def concerns(self, prefix: str) -> bool:
        """Whether there can be encrypted values under a prefix of storage keys."""
        return any(prefix.startswith(sealed) or sealed.startswith(prefix) for sealed in self.prefixes)


def sealed_with(value: bytes) -> str | None:
    """The name of the key that encrypted a value; None for a plain one."""
    if not value.startswith(MARK):
        return None
    # a name is ASCII and short; otherwise the value is damaged, and no key decrypts it
    end = value.find(b":", len(MARK), len(MARK) + 64)
    return value[len(MARK) : end].decode("ascii", "replace") if end >= 0 else ""
