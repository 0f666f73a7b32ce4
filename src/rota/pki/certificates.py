"""Certificates as values: subject, names, validity, and the pair of certificate and key.

A client certificate names its user as Kubernetes does: the common name is the user, organizations are the groups.
"""

import hashlib
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from rota.pki.keys import KeyMaterialError, PrivateKey, from_pem

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


_SERIAL_CHANCE_BITS: Final = 80
#: How long before it is signed a certificate may begin: clocks differ.
_LONGEST_SKEW_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a certificate."""

    common_name: str
    organizations: tuple[str, ...] = ()

    def to_name(self) -> x509.Name:
        """As an X.509 name."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in self.organizations]
        if self.common_name:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, self.common_name))
        return x509.Name(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The DNS names and IP addresses of a server."""

    dns: tuple[str, ...] = ()
    addresses: tuple[IpAddress, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str]) -> "Names":
        """Separate host names from IP addresses; duplicates are removed."""
        dns: dict[str, None] = {}
        addresses: dict[IpAddress, None] = {}
        for host in hosts:
            try:
                addresses[ipaddress.ip_address(host)] = None
            except ValueError:
                dns[host] = None
        return cls(dns=tuple(dns), addresses=tuple(addresses))

    def to_extension(self) -> x509.SubjectAlternativeName:
        """As the extension subjectAltName."""
        return x509.SubjectAlternativeName([*map(x509.DNSName, self.dns), *map(x509.IPAddress, self.addresses)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The fields of a certificate that Rota uses."""

    subject: Subject
    not_before: float
    not_after: float
    #: SHA-256 of the certificate, in hexadecimal.
    fingerprint: str
    #: When it was signed: to the millisecond if a Rota authority signed it, else no later than `not_before`.
    issued_at: float = 0.0

    def holds_at(self, now: float) -> bool:
        """Whether the validity period includes this time."""
        return self.not_before <= now <= self.not_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate (with its intermediate certificates) and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def facts(self) -> Facts:
        """The fields of the certificate."""
        return facts(read_pem(self.certificate, source="the certificate"))

    def private_key(self) -> PrivateKey:
        """The key to sign with."""
        return from_pem(self.key, source="the certificate's key")


def facts(certificate: x509.Certificate) -> Facts:
    """The fields of a certificate; of several common names the last counts, as in Go."""
    return Facts(
        subject=subject(certificate.subject),
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        fingerprint=hashlib.sha256(to_der(certificate)).hexdigest(),
        issued_at=issued_at(certificate),
    )


def serial_number(now: float) -> int:
    """A serial number that encodes the time of signing; the rest is random."""
    return (int(now * 1000) << _SERIAL_CHANCE_BITS) | secrets.randbits(_SERIAL_CHANCE_BITS)


def issued_at(certificate: x509.Certificate) -> float:
    """When a certificate was signed; its `not_before` if another authority chose the serial number."""
    begins = certificate.not_valid_before_utc.timestamp()
    said = (certificate.serial_number >> _SERIAL_CHANCE_BITS) / 1000
    return said if begins <= said <= begins + _LONGEST_SKEW_S else begins


def subject(name: x509.Name) -> Subject:
    """The subject of an X.509 name; ValueError if an attribute is not text."""
    common_names = [_text(one) for one in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = tuple(_text(one) for one in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return Subject(common_name=common_names[-1] if common_names else "", organizations=organizations)


def names(certificate: x509.Certificate) -> Names:
    """The names and addresses that a server certificate is valid for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names()
    single = [one for one in found.get_values_for_type(x509.IPAddress) if isinstance(one, IpAddress)]
    return Names(dns=tuple(found.get_values_for_type(x509.DNSName)), addresses=tuple(single))


def read_der(der: bytes) -> x509.Certificate:
    """A certificate in DER, as TLS passes it; ValueError if it cannot be parsed."""
    return x509.load_der_x509_certificate(der)


def read_pem(pem: bytes, *, source: str) -> x509.Certificate:
    """The first certificate of a PEM file."""
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        raise KeyMaterialError(f"{source} holds no certificate: {error}", "put a PEM certificate there") from None


def to_pem(certificate: x509.Certificate) -> bytes:
    """As PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def to_der(certificate: x509.Certificate) -> bytes:
    """As DER."""
    return certificate.public_bytes(serialization.Encoding.DER)


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    if isinstance(attribute.value, bytes):
        raise ValueError("a name in the certificate is no text")
    return attribute.value
