"""Sealed values: encrypted and authenticated texts that only the masters of one cluster can make and open.

The key is derived from a secret that all masters share, so a session that one master began is valid at every other.
"""

import base64
import binascii
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES: Final = 12
_INFO: Final = b"rota dashboard session v1"


class Seal:
    """Seals and opens values with one key."""

    def __init__(self, secret: bytes) -> None:
        """`secret` has at least 32 bytes of entropy and is never sent anywhere."""
        self._cipher: Final = AESGCM(HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_INFO).derive(secret))

    def seal(self, content: bytes, purpose: bytes) -> str:
        """The content as a text for a cookie or a URL; it opens for the same purpose only."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _encoded(nonce + self._cipher.encrypt(nonce, content, purpose))

    def open(self, text: str, purpose: bytes) -> bytes | None:
        """The sealed content; None if the text was not sealed with this key for this purpose."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            if _encoded(raw) != text:
                return None  # the last character has bits that mean nothing, and they were changed
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], purpose)
        except (InvalidTag, ValueError, binascii.Error):
            return None


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
