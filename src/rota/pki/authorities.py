"""A certificate authority: the root of trust of a cluster's servers and clients.

A certificate that it issues never outlives it, begins a little in the past (clocks differ), and has one purpose: a
server certificate is not valid for a client.
"""

import enum
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from rota.pki import certificates, keys
from rota.pki.certificates import Identity, Names, Subject
from rota.pki.keys import KeyMaterialError, PrivateKey, PublicKey

DAY_S: Final = 86_400.0
YEAR_S: Final = 365 * DAY_S
#: Lifetime of the authority; its operator replaces it.
AUTHORITY_LIFETIME_S: Final = 10 * YEAR_S
#: Allowed clock difference between machines.
SKEW_S: Final = 300.0


class Purpose(enum.Enum):
    """The extended key usage of a certificate."""

    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
    SERVER = ExtendedKeyUsageOID.SERVER_AUTH


class Authority:
    """A root certificate and its key."""

    def __init__(self, certificate_pem: bytes, key_pem: bytes, *, source: str = "the authority") -> None:
        """`certificate_pem` may hold further trusted roots after the one that signs."""
        self.certificate_pem: Final = certificate_pem
        self.key_pem: Final = key_pem
        self._certificate: Final = certificates.read_pem(certificate_pem, source=source)
        self._key: Final[PrivateKey] = keys.from_pem(key_pem, source=f"the key of {source}")
        if self._certificate.public_key() != self._key.public_key():
            raise KeyMaterialError(f"certificate and key of {source} do not belong together", "provide a pair")
        if not _may_sign(self._certificate):
            raise KeyMaterialError(f"{source} is not the certificate of an authority", "provide one with CA:TRUE")

    @classmethod
    def create(cls, *, now: float, name: str = "rota") -> "Authority":
        """A new authority."""
        key = keys.generate()
        subject = Subject(common_name=name).to_name()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_date(now - SKEW_S))
            .not_valid_after(_date(now + AUTHORITY_LIFETIME_S))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        certificate = builder.sign(key, keys.DIGEST)
        return cls(certificates.to_pem(certificate), keys.to_pem(key))

    @property
    def signing_pem(self) -> bytes:
        """The certificate that signs, without other trusted roots."""
        return certificates.to_pem(self._certificate)

    @property
    def not_after(self) -> float:
        """When it expires."""
        return self._certificate.not_valid_after_utc.timestamp()

    def issue(
        self, subject: Subject, *, purpose: Purpose, now: float, lifetime_s: float, names: Names | None = None
    ) -> Identity:
        """A new key with its certificate."""
        key = keys.generate()
        certificate = self.sign(key.public_key(), subject, purpose=purpose, now=now, lifetime_s=lifetime_s, names=names)
        return Identity(certificate=certificate, key=keys.to_pem(key))

    def sign(
        self,
        public_key: PublicKey,
        subject: Subject,
        *,
        purpose: Purpose,
        now: float,
        lifetime_s: float,
        names: Names | None = None,
    ) -> bytes:
        """A certificate (PEM) for the public key of another party."""
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject.to_name())
            .issuer_name(self._certificate.subject)
            .public_key(public_key)
            .serial_number(certificates.serial_number(now))
            .not_valid_before(_date(now - SKEW_S))
            .not_valid_after(_date(min(now + lifetime_s, self.not_after)))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose.value]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names is not None and (names.dns or names.addresses):
            # # a certificate without a subject is identified by these names alone
            builder = builder.add_extension(names.to_extension(), critical=not subject.common_name)
        return certificates.to_pem(builder.sign(self._key, keys.DIGEST))


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _date(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
