"""Certificates of removed workers are refused; those of a later join are accepted."""

from collections.abc import AsyncIterator

import pytest

from rota.api import errors
from rota.apiserver.authentication.certificates import CertificateHolders
from rota.apiserver.authentication.removals import Removals
from rota.apiserver.authentication.request_authenticator import RequestAuthenticator
from rota.apiserver.authentication.tokens import Tokens
from rota.apiserver.interfaces import Credentials
from rota.pki import certificates
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Subject
from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster

NODES = ("", "v1", "nodes")


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster() as made:
        yield made


@pytest.fixture
def authority(cluster: VirtualCluster) -> Authority:
    return Authority.create(now=cluster.clock.now())


def _shown(cluster: VirtualCluster, authority: Authority, name: str) -> Credentials:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    issued = authority.issue(subject, purpose=Purpose.CLIENT, now=cluster.clock.now(), lifetime_s=86_400)
    der = certificates.to_der(certificates.read_pem(issued.certificate, source="it"))
    return Credentials(headers={}, peer_certificate=der)


async def test_deleting_a_node_ends_its_workers_certificates_and_no_others(
    cluster: VirtualCluster, authority: Authority
) -> None:
    clock = cluster.clock
    holders = CertificateHolders(clock, Removals(cluster.server.store, clock))
    entrance = RequestAuthenticator(holders, Tokens([], clock=clock), audiences=(), clock=clock)
    for name in ("n1", "n2"):
        await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    first, other = _shown(cluster, authority, "n1"), _shown(cluster, authority, "n2")
    assert (await entrance.authenticate(first)).name == "system:node:n1"
    await clock.advance(0.01)
    await cluster.client.delete(NODES, "n1")
    await clock.advance(2)
    with pytest.raises(errors.Unauthorized):
        await entrance.authenticate(first)
    assert (await entrance.authenticate(other)).name == "system:node:n2"
    await clock.advance(0.01)
    assert (await entrance.authenticate(_shown(cluster, authority, "n1"))).name == "system:node:n1", "it joined again"
    with pytest.raises(errors.Unauthorized):
        await entrance.authenticate(first)
