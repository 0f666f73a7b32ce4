"""Encryption of backup files: AES-256-GCM, with a key of each file derived from the key of the user.

A file's key is HKDF-SHA256 of the user's key and a random salt in the file, so no two files share one and a frame's
number can be its nonce. A frame that was altered, moved or taken from another file does not open.
"""

import base64
import binascii
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rota.store import errors

SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"rota backup 1"


class WrongKey(errors.StoreError):
    """A frame does not open: the key is another one, or the file was altered."""


class Sealing:
    """Seals or opens the frames of one file, in their order."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        self.salt: Final = salt
        derived = HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=salt, info=_PURPOSE).derive(key)
        self._cipher: Final = AESGCM(derived)
        self._frames = 0

    def seal(self, frame: bytes) -> bytes:
        """Encrypt the next frame."""
        return self._cipher.encrypt(self._nonce(), frame, None)

    def open(self, sealed: bytes) -> bytes:
        """Decrypt the next frame."""
        try:
            return self._cipher.decrypt(self._nonce(), sealed, None)
        except InvalidTag:
            raise WrongKey(
                "the backup does not open with this key", "name the key file that it was made with; see --key"
            ) from None

    def _nonce(self) -> bytes:
        nonce = self._frames.to_bytes(_NONCE_BYTES, "big")
        self._frames += 1
        return nonce


def opening(path: Path, file: BinaryIO, *, sealed: bool, key: bytes | None) -> Sealing | None:
    """What opens the frames of a file, which is at the place of its salt; None if they are not encrypted."""
    if not sealed and key is None:
        return None
    if not sealed:
        # A plain file in the place of an encrypted one must not be taken for it.
        raise errors.StoreError(f"{path} is not encrypted", "leave --key out if that is the file you mean")
    if key is None:
        raise errors.StoreError(f"{path} is encrypted", "name the key file that it was made with: --key FILE")
    return Sealing(key, file.read(SALT_BYTES))


def salt() -> bytes:
    """The salt of a new file."""
    return secrets.token_bytes(SALT_BYTES)


def read_key(path: Path) -> bytes:
    """The key in a file: 32 bytes in base64, readable by its owner only."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
        key = base64.b64decode(text.strip(), validate=True)
    except FileNotFoundError:
        raise errors.StoreError(
            f"there is no key file {path}", f"make one: (umask 077; head -c 32 /dev/urandom | base64 > {path})"
        ) from None
    except OSError as problem:
        raise errors.StoreError(f"cannot read {path}: {problem.strerror}") from None
    except (binascii.Error, UnicodeDecodeError):
        key = b""
        mode = 0
    if len(key) != _KEY_BYTES:
        raise errors.StoreError(f"{path} is no key file", "it has 32 bytes in base64")
    if stat.S_IMODE(mode) & 0o077:
        raise errors.StoreError(f"others may read the key file {path}", f"chmod 600 {path}")
    return key
