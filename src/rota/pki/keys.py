"""Private keys: generated as ECDSA on P-256; RSA keys are accepted where an operator provides one."""

from typing import Final, TypeAlias

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from rota.kit import errors

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

#: The key types that sign certificates.
DIGEST: Final = hashes.SHA256()
_LEAST_RSA_BITS: Final = 2048
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


class KeyMaterialError(errors.UserError):
    """A key or certificate cannot be used."""


def generate() -> ec.EllipticCurvePrivateKey:
    """A new key; takes well under a millisecond."""
    return ec.generate_private_key(ec.SECP256R1())


def to_pem(key: PrivateKey) -> bytes:
    """The key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def from_pem(pem: bytes, *, source: str) -> PrivateKey:
    """Parse a key in PEM; KeyMaterialError, with `source` as its name, if there is no usable key."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise KeyMaterialError(f"{source} holds no private key: {error}", "put an unencrypted PEM key there") from None
    if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) and is_strong(key.public_key()):
        return key
    raise KeyMaterialError(f"{source} is no ECDSA or RSA key of the usual strengths", "make a P-256 key")


def is_strong(key: object) -> bool:
    """Whether a public key has a type and size that certificates may use."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, _CURVES)
    return isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS
