"""Certificates as values: whom one names, from when to when, and the pair of it and its key.

A client certificate says who its holder is as Kubernetes has it: the common name is the user, organizations are groups.
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
    """Whom a certificate names."""

    common_name: str
    organizations: tuple[str, ...] = ()

    def to_name(self) -> x509.Name:
        """As certificates have it."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in self.organizations]
        if self.common_name:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, self.common_name))
        return x509.Name(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Under which a server may be reached."""

    dns: tuple[str, ...] = ()
    addresses: tuple[IpAddress, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str]) -> "Names":
        """Host names and addresses told apart; each once."""
        dns: dict[str, None] = {}
        addresses: dict[IpAddress, None] = {}
        for host in hosts:
            try:
                addresses[ipaddress.ip_address(host)] = None
            except ValueError:
                dns[host] = None
        return cls(dns=tuple(dns), addresses=tuple(addresses))

    def to_extension(self) -> x509.SubjectAlternativeName:
        """As certificates have it."""
        return x509.SubjectAlternativeName([*map(x509.DNSName, self.dns), *map(x509.IPAddress, self.addresses)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a certificate says."""

    subject: Subject
    not_before: float
    not_after: float
    #: SHA-256 of the certificate, in hexadecimal.
    fingerprint: str
    #: When it was signed: to the millisecond if the authority is ours, else no later than `not_before`.
    issued_at: float = 0.0

    def holds_at(self, now: float) -> bool:
        """Whether it is valid then, as far as time goes."""
        return self.not_before <= now <= self.not_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate (with those that it was issued by, if they are not roots) and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def facts(self) -> Facts:
        """What the certificate says."""
        return facts(read_pem(self.certificate, source="the certificate"))

    def private_key(self) -> PrivateKey:
        """The key to sign with."""
        return from_pem(self.key, source="the certificate's key")


def facts(certificate: x509.Certificate) -> Facts:
    """What a certificate says; of several common names the last counts, as in Go."""
    return Facts(
        subject=subject(certificate.subject),
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        fingerprint=hashlib.sha256(to_der(certificate)).hexdigest(),
        issued_at=issued_at(certificate),
    )


def serial_number(now: float) -> int:
    """A number for a certificate that is signed now, from which the time can be read; the rest is chance."""
    return (int(now * 1000) << _SERIAL_CHANCE_BITS) | secrets.randbits(_SERIAL_CHANCE_BITS)


def issued_at(certificate: x509.Certificate) -> float:
    """When a certificate was signed; the beginning of its time if its number is not one of ours."""
    begins = certificate.not_valid_before_utc.timestamp()
    said = (certificate.serial_number >> _SERIAL_CHANCE_BITS) / 1000
    return said if begins <= said <= begins + _LONGEST_SKEW_S else begins


def subject(name: x509.Name) -> Subject:
    """Whom a name names; ValueError if it does so in another way than by text."""
    common_names = [_text(one) for one in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = tuple(_text(one) for one in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return Subject(common_name=common_names[-1] if common_names else "", organizations=organizations)


def names(certificate: x509.Certificate) -> Names:
    """Under which a server with this certificate may be reached."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names()
    single = [one for one in found.get_values_for_type(x509.IPAddress) if isinstance(one, IpAddress)]
    return Names(dns=tuple(found.get_values_for_type(x509.DNSName)), addresses=tuple(single))


def read_der(der: bytes) -> x509.Certificate:
    """A certificate as TLS hands it over; ValueError if it is none."""
    return x509.load_der_x509_certificate(der)


def read_pem(pem: bytes, *, source: str) -> x509.Certificate:
    """The first certificate of a PEM file."""
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        raise KeyMaterialError(f"{source} holds no certificate: {error}", "put a PEM certificate there") from None


def to_pem(certificate: x509.Certificate) -> bytes:
    """As a file has it."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def to_der(certificate: x509.Certificate) -> bytes:
    """As TLS has it."""
    return certificate.public_bytes(serialization.Encoding.DER)


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    if isinstance(attribute.value, bytes):
        raise ValueError("a name in the certificate is no text")
    return attribute.value
