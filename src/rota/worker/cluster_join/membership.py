"""The worker's membership on disk, in its own folder: the masters' addresses and its certificates.

    kubeconfig     the masters' addresses and CA, the worker's client certificate and key
    serving.pem    the serving certificate and key of its endpoint

A restarted worker needs nothing else, and no token.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import errors
from rota.kit.clock import Clock
from rota.pki import certificates, files
from rota.pki.certificates import Identity
from rota.pki.keys import KeyMaterialError, PrivateKey
from rota.worker.cluster_join import certificate_requests

KUBECONFIG: Final = "kubeconfig"
SERVING: Final = "serving.pem"
_KEY: Final = b"-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The masters' addresses, and this worker's client certificate."""

    endpoint: Endpoint
    identity: Identity

    @property
    def node(self) -> str:
        """The node name in the certificate; empty if it is not a worker's."""
        return node_of(self.identity)

    def renewed(self, identity: Identity) -> "Membership":
        """The same membership with a newer certificate."""
        endpoint = replace(self.endpoint, client_certificate=identity.certificate, client_key=identity.key)
        return Membership(endpoint=endpoint, identity=identity)

    def at(self, servers: tuple[str, ...]) -> "Membership":
        """The same membership with other addresses of its masters; the first one is called first."""
        endpoint = replace(self.endpoint, server=servers[0], fallbacks=servers[1:])
        return Membership(endpoint=endpoint, identity=self.identity)


def node_of(identity: Identity) -> str:
    """The node name in a certificate; empty if it is not a worker's."""
    name, prefix = identity.facts.subject.common_name, certificate_requests.subject("").common_name
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def of(endpoint: Endpoint) -> Membership | None:
    """The membership of an endpoint with a client certificate; None if it has none of a worker."""
    if endpoint.client_certificate is None or endpoint.client_key is None:
        return None
    identity = Identity(certificate=endpoint.client_certificate, key=endpoint.client_key)
    found = Membership(endpoint=endpoint, identity=identity)
    return found if found.node else None


def former_key(folder: Path, node: str, *, clock: Clock) -> PrivateKey | None:
    """The key of an earlier worker of this name, whether its certificate is valid or not; None if there is none."""
    path = folder / KUBECONFIG
    if not path.exists():
        return None
    try:
        found = of(kubeconfig.load(path, clock=clock))
        return found.identity.private_key() if found is not None and found.node == node else None
    except errors.UserError:
        return None


def load(folder: Path, *, clock: Clock) -> Membership | None:
    """The stored membership; None if there is none, or it is no longer valid."""
    path = folder / KUBECONFIG
    if not path.exists():
        return None
    found = of(kubeconfig.load(path, clock=clock))
    return found if found is not None and found.identity.facts.holds_at(clock.now()) else None


def save(folder: Path, membership: Membership) -> None:
    """Store the membership for the next start."""
    files.make_private_folder(folder)
    files.write_private(folder / KUBECONFIG, kubeconfig.render(membership.endpoint, name="rota"))


def load_serving(folder: Path, *, clock: Clock) -> Identity | None:
    """The stored serving certificate, if it is still valid."""
    path = folder / SERVING
    if not path.exists():
        return None
    content = path.read_bytes()
    certificate, found, key = content.partition(_KEY)
    identity = Identity(certificate=certificate, key=found + key)
    try:
        good = identity.facts.holds_at(clock.now())
    except KeyMaterialError:
        return None
    return identity if good and found else None


def save_serving(folder: Path, identity: Identity) -> None:
    """Store the serving certificate for the next start."""
    files.write_private(folder / SERVING, identity.certificate + identity.key)


def authority_of(membership: Membership) -> bytes:
    """The certificates of the cluster's CA, whose clients the endpoint accepts."""
    authority = membership.endpoint.certificate_authority
    assert authority is not None, "a joined worker knows the authority of its cluster"
    # Validated here, so that an error is reported before the endpoint listens.
    certificates.read_pem(authority, source="the cluster's authority")
    return authority
