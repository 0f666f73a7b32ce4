"""Bootstrap trust in a certificate authority that is known by the hash of its public key.

A joining node gets the address of a server and the hash of the server's authority. The server presents its whole chain
in the handshake; the certificate whose key has that hash is the authority. Later connections are verified as usual.
"""

import asyncio
import hashlib
import hmac
import ssl
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from rota.kit import errors
from rota.pki import certificates
from rota.pki.keys import PublicKey

_PREFIX: Final = "sha256:"


class PinMismatch(errors.UserError):
    """The server's chain has no certificate with the expected hash."""


def pin(authority: bytes) -> str:
    """The hash of an authority's (PEM) public key, in kubeadm's format."""
    return _pin(certificates.read_pem(authority, source="the authority"))


async def authority_of(host: str, port: int, wanted: str) -> bytes:
    """Fetch the authority (PEM) with this hash from a server's chain; PinMismatch, OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # This connection is not verified: only a certificate with the right hash is used.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        shown = _chain(writer.get_extra_info("ssl_object"))
    finally:
        writer.transport.abort()
    for certificate in map(certificates.read_der, shown):
        if hmac.compare_digest(_pin(certificate), wanted):
            return certificates.to_pem(certificate)
    raise PinMismatch(
        f"the server at {host}:{port} does not have the authority {wanted}",
        "check the address, and whether the hash is of this cluster",
    )


def pin_of_key(key: PublicKey) -> str:
    """The hash of a public key, in the same format."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _PREFIX + hashlib.sha256(der).hexdigest()


def _pin(certificate: x509.Certificate) -> str:
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _PREFIX + hashlib.sha256(der).hexdigest()


def _chain(secured: Any) -> list[bytes]:
    """All certificates that the peer presented, as DER; a public method since Python 3.13."""
    if hasattr(secured, "get_unverified_chain"):
        return list(secured.get_unverified_chain())
    return [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in secured._sslobj.get_unverified_chain()]
