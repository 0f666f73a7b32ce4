"""What a worker keeps of its membership, how it stays fresh, and whom it takes for its cluster."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rota.client import credentials
from rota.client.endpoints import Endpoint
from rota.controllers.certificates import CertificateController
from rota.pki import certificates, pinning
from rota.pki.authorities import DAY_S, YEAR_S, Authority, Purpose
from rota.pki.certificates import Identity, Names
from rota.testing import virtual_api
from rota.testing.clocks import FakeClock
from rota.testing.virtual_api import VirtualCluster
from rota.worker.cluster_join import certificate_renewal, certificate_requests, join, membership
from rota.worker.cluster_join.certificate_requests import NotGranted
from rota.worker.cluster_join.join import CannotJoin, Invitation
from rota.worker.cluster_join.membership import Membership
from rota.worker.worker_assembly import Settings

CLOCK = FakeClock()
AUTHORITY = Authority.create(now=CLOCK.now())


def identity(node: str, *, lifetime_s: float = YEAR_S) -> Identity:
    return AUTHORITY.issue(
        certificate_requests.subject(node), purpose=Purpose.CLIENT, now=CLOCK.now(), lifetime_s=lifetime_s
    )


def member(node: str = "w1", *, lifetime_s: float = YEAR_S) -> Membership:
    endpoint = Endpoint(
        server="https://m1:6443", fallbacks=("https://m2:6443",), certificate_authority=AUTHORITY.certificate_pem
    )
    own = identity(node, lifetime_s=lifetime_s)
    return Membership(endpoint=endpoint, identity=own).renewed(own)


def test_a_membership_is_found_again_and_is_private(tmp_path: Path) -> None:
    kept = member()
    membership.save(tmp_path / "w", kept)
    assert membership.load(tmp_path / "w", clock=CLOCK) == kept
    assert (tmp_path / "w" / "kubeconfig").stat().st_mode & 0o077 == 0
    assert membership.load(tmp_path / "other", clock=CLOCK) is None


def test_one_that_is_over_or_no_workers_is_none(tmp_path: Path) -> None:
    membership.save(tmp_path, member(lifetime_s=-1))
    assert membership.load(tmp_path, clock=CLOCK) is None
    assert membership.of(Endpoint(server="https://m1:6443")) is None
    admin = AUTHORITY.issue(
        certificates.Subject(common_name="admin"), purpose=Purpose.CLIENT, now=CLOCK.now(), lifetime_s=DAY_S
    )
    assert membership.of(member().renewed(admin).endpoint) is None


async def test_a_returning_worker_uses_its_stored_membership_and_the_given_masters(tmp_path: Path) -> None:
    kept = member()
    membership.save(tmp_path, kept)

    async def again(invitation: Invitation, node: str = "w1") -> Membership:
        return await join.enter(tmp_path, node, invitation, clock=CLOCK, rng=random.Random(0))

    assert await again(Invitation()) == kept
    told = await again(Invitation(servers=("m3", "https://m4:7443"), authority_hash=pinning.pin(AUTHORITY.signing_pem)))
    assert told.endpoint.server == "https://m3:6443"
    before = (kept.endpoint.server, *kept.endpoint.fallbacks)
    assert told.endpoint.fallbacks == ("https://m4:7443", *before), "what it knew is kept, behind what it is told"
    assert told.identity == kept.identity
    with pytest.raises(CannotJoin, match="is w1, not w2"):
        await again(Invitation(), "w2")
    with pytest.raises(CannotJoin, match="belongs to another cluster"):
        await again(Invitation(authority_hash="sha256:" + "0" * 64))
    other = Authority.create(now=CLOCK.now())
    with pytest.raises(CannotJoin, match="belongs to another cluster"):
        await again(Invitation(authority=other.certificate_pem))


async def test_a_kubeconfig_of_the_worker_itself_is_a_membership(tmp_path: Path) -> None:
    brought = replace(member().endpoint, credentials=credentials.ANONYMOUS)
    joined = await join.enter(tmp_path, "w1", Invitation(endpoint=brought), clock=CLOCK, rng=random.Random(0))
    assert joined.node == "w1"
    assert membership.load(tmp_path, clock=CLOCK) == joined


def test_a_worker_is_known_by_the_address_that_it_goes_to_its_masters_by(tmp_path: Path) -> None:
    settings = Settings(node="w1", folder=tmp_path)
    placed = join.placed(settings, Invitation(servers=("127.0.0.1:7443", "m2")), clock=CLOCK)
    assert (placed.address, placed.api_server) == ("127.0.0.1", ("127.0.0.1", "7443"))
    told = Settings(node="w1", folder=tmp_path, address="10.1.2.3")
    assert join.placed(told, Invitation(servers=("127.0.0.1",)), clock=CLOCK).address == "10.1.2.3"


def test_an_endpoint_shows_what_it_was_granted_if_that_is_for_its_address(tmp_path: Path) -> None:
    here, elsewhere = Names.of(["10.0.0.5"]), Names.of(["10.0.0.6"])
    shown, granted = certificate_renewal.first_serving(tmp_path, "w1", here, clock=CLOCK)
    assert granted is None
    assert certificates.names(certificates.read_pem(shown.certificate, source="it")) == here
    good = AUTHORITY.issue(
        certificate_requests.subject("w1"), purpose=Purpose.SERVER, now=CLOCK.now(), lifetime_s=DAY_S, names=here
    )
    membership.save_serving(tmp_path, good)
    assert certificate_renewal.first_serving(tmp_path, "w1", here, clock=CLOCK) == (good, good)
    assert certificate_renewal.first_serving(tmp_path, "w1", elsewhere, clock=CLOCK)[1] is None


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster() as made:
        yield made


@pytest.mark.slow
async def test_a_certificate_is_replaced_when_two_thirds_of_its_life_are_over(cluster: VirtualCluster) -> None:
    authority = Authority.create(now=cluster.clock.now())
    controller = CertificateController(
        cluster.acting_as("rota:controller:certificates"), authority, clock=cluster.clock, rng=cluster.rng
    )
    worker = cluster.acting_as("system:node:w1", "system:nodes")
    first = authority.issue(
        certificate_requests.subject("w1"), purpose=Purpose.CLIENT, now=cluster.clock.now(), lifetime_s=3 * 3600.0
    )
    installed: list[Identity] = []

    async def install(fresh: Identity) -> None:
        installed.append(fresh)

    renewal = certificate_renewal.Certificate(
        worker, "w1", certificate_requests.CLIENT, first, install=install, clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run), cluster.running(renewal.run):
        await cluster.clock.advance(1.8 * 3600)
        assert not installed
        await cluster.clock.advance(0.4 * 3600)
    (fresh,) = installed
    assert fresh.facts.subject == certificate_requests.subject("w1")
    assert fresh.facts.not_after > first.facts.not_after
    assert fresh.key != first.key


async def test_a_certificate_is_granted_once_the_cluster_has_approved_it(cluster: VirtualCluster) -> None:
    authority = Authority.create(now=cluster.clock.now())
    controller = CertificateController(
        cluster.acting_as("rota:controller:certificates"), authority, clock=cluster.clock, rng=cluster.rng
    )
    worker = cluster.acting_as("system:node:w1", "system:nodes")
    installed: list[Identity] = []

    async def install(fresh: Identity) -> None:
        installed.append(fresh)

    certificate = certificate_renewal.Certificate(
        worker, "w1", certificate_requests.CLIENT, None, install=install, clock=cluster.clock, rng=cluster.rng
    )
    waiting = asyncio.ensure_future(certificate.wait_granted())
    async with cluster.running(certificate.run):
        await cluster.clock.advance(60)
        assert not waiting.done()
        async with cluster.running(controller.run):
            await cluster.clock.advance(60)
    assert waiting.done()
    assert len(installed) == 1


async def test_a_request_that_is_not_granted_is_an_error(cluster: VirtualCluster) -> None:
    worker = cluster.acting_as("system:node:w1", "system:nodes")
    names = Names.of(["10.0.0.5"])
    asking = certificate_requests.obtain(
        worker, "w1", certificate_requests.SERVING, clock=cluster.clock, patience_s=30.0, names=names
    )
    result: list[BaseException] = []

    async def ask() -> None:
        try:
            await asking
        except NotGranted as refusal:
            result.append(refusal)

    async with cluster.running(ask):
        await cluster.clock.advance(40)
    assert "kubectl certificate approve node-csr-" in str(result[0])
