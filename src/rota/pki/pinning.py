"""Trust at first sight, but not blindly: an authority that is known by its hash alone.

A newcomer is told where a server is and the hash of the authority behind it. The server shows its whole chain in the
handshake; the certificate in it whose key has that hash is the authority, whatever else the other side may be. From
then on connections are verified in the usual way.
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
    """The server is not the one that was meant."""


def pin(authority: bytes) -> str:
    """The hash of an authority's (PEM) public key, in the form that kubeadm knows."""
    return _pin(certificates.read_pem(authority, source="the authority"))


async def authority_of(host: str, port: int, wanted: str) -> bytes:
    """The authority (PEM) of that hash that a server's certificate comes from; PinMismatch, OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is believed that comes over this connection, except for a certificate with the right hash.
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
    """The hash of a public key, in the same form."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _PREFIX + hashlib.sha256(der).hexdigest()


def _pin(certificate: x509.Certificate) -> str:
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _PREFIX + hashlib.sha256(der).hexdigest()


def _chain(secured: Any) -> list[bytes]:
    """All certificates that the other side has shown, as DER; a public method since Python 3.13."""
    if hasattr(secured, "get_unverified_chain"):
        return list(secured.get_unverified_chain())
    return [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in secured._sslobj.get_unverified_chain()]
