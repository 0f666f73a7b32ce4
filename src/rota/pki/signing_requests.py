"""Certificate signing requests (PKCS #10): creates and parses them."""

from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from rota.pki import certificates, keys
from rota.pki.certificates import Names, Subject
from rota.pki.keys import PrivateKey, PublicKey

_BEGIN: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
#: Exceptions of the parser for bytes that are not a valid request.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class NotARequest(ValueError):
    """The bytes are not a valid signing request, or its sender does not have the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The requested certificate."""

    subject: Subject
    names: Names
    public_key: PublicKey
    #: Whether mail addresses or URIs are requested too; no signer here allows them.
    has_other_names: bool


def make(key: PrivateKey, subject: Subject, *, names: Names | None = None) -> bytes:
    """A request (PEM) for a certificate of this key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject.to_name())
    if names is not None and (names.dns or names.addresses):
        builder = builder.add_extension(names.to_extension(), critical=False)
    return builder.sign(key, keys.DIGEST).public_bytes(serialization.Encoding.PEM)


def read(pem: bytes) -> Request:
    """Parse a request (PEM); NotARequest says why it is invalid."""
    if _BEGIN not in pem:
        raise NotARequest("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem)
        proved = request.is_signature_valid
        public_key = request.public_key()
        subject = certificates.subject(request.subject)
        names, others = _names(request)
    except _UNREADABLE as error:
        raise NotARequest(f"unable to parse the certificate request: {error}") from None
    if not proved:
        raise NotARequest("the request is not signed with the key that it is for")
    if not isinstance(public_key, PublicKey) or not keys.is_strong(public_key):
        raise NotARequest("the key is not ECDSA on a NIST curve or RSA of at least 2048 bits")
    return Request(subject=subject, names=names, public_key=public_key, has_other_names=others)


def _names(request: x509.CertificateSigningRequest) -> tuple[Names, bool]:
    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names(), False
    dns = tuple(found.get_values_for_type(x509.DNSName))
    addresses = tuple(found.get_values_for_type(x509.IPAddress))
    single = tuple(one for one in addresses if isinstance(one, certificates.IpAddress))
    return Names(dns=dns, addresses=single), len(dns) + len(single) < len(found)
