"""The keys of a lease: one certificate for its worker and one for the client, each trusted by the other side alone."""

import datetime as dt
import ssl
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from rota.pki import certificates, contexts, keys
from rota.pki.certificates import Identity, Subject

#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME: the keys end with the lease, and clocks differ.
_NO_CHECK_TIME: Final = 0x200000
_DAYS: Final = 3650


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKeys:
    """The keys of a lease, as the client keeps them."""

    worker: Identity
    client: Identity

    def for_worker(self) -> dict[str, str]:
        """What the worker gets in its Secret."""
        return {
            "certificate": self.worker.certificate.decode(),
            "key": self.worker.key.decode(),
            "client": self.client.certificate.decode(),
        }

    def context(self) -> ssl.SSLContext:
        """Connects to this lease's worker and to no other."""
        context = contexts.client(self.client, server_authorities=self.worker.certificate)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # its address is not known beforehand; its key is
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
        return context


def fresh(now: float) -> LeaseKeys:
    """New keys."""
    return LeaseKeys(worker=_identity("rota lease worker", now), client=_identity("rota lease client", now))


def _identity(name: str, now: float) -> Identity:
    key, subject = keys.generate(), Subject(common_name=name).to_name()
    begins = dt.datetime.fromtimestamp(now - 3600, dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(certificates.serial_number(now))
        .not_valid_before(begins)
        .not_valid_after(begins + dt.timedelta(days=_DAYS))
        .sign(key, hashes.SHA256())
    )
    return Identity(certificate=certificates.to_pem(made), key=keys.to_pem(key))
