"""Certificates of an authority, verified by OpenSSL: the same library as in a handshake."""

import ssl
from pathlib import Path

import pytest

from rota.kit.system import SystemClock
from rota.pki import authorities, certificates, contexts, keys
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Identity, Names, Subject

NOW = 1_700_000_000.0
ALICE = Subject(common_name="alice", organizations=("dev", "ops"))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create(now=NOW)


def client(authority: Authority, *, lifetime_s: float = authorities.DAY_S) -> Identity:
    return authority.issue(ALICE, purpose=Purpose.CLIENT, now=NOW, lifetime_s=lifetime_s)


def test_a_client_certificate_tells_user_and_groups(authority: Authority) -> None:
    facts = client(authority).facts
    assert facts.subject == ALICE
    assert facts.holds_at(NOW)
    assert not facts.holds_at(NOW + authorities.DAY_S + 1)
    assert not facts.holds_at(NOW - authorities.SKEW_S - 1)


def test_a_clock_that_is_a_little_late_takes_a_certificate_at_once(authority: Authority) -> None:
    assert client(authority).facts.holds_at(NOW - 60)


def test_nothing_outlives_its_authority(authority: Authority) -> None:
    assert client(authority, lifetime_s=100 * authorities.YEAR_S).facts.not_after == authority.not_after


def test_every_certificate_has_a_key_of_its_own(authority: Authority) -> None:
    first, second = client(authority), client(authority)
    assert first.key != second.key
    assert first.facts.fingerprint != second.facts.fingerprint


def test_an_authority_comes_back_from_its_pem(authority: Authority) -> None:
    again = Authority(authority.certificate_pem, authority.key_pem)
    issued = client(again)
    certificate = certificates.read_pem(issued.certificate, source="it")
    certificate.verify_directly_issued_by(certificates.read_pem(authority.certificate_pem, source="the root"))


def test_certificate_and_key_must_belong_together(authority: Authority) -> None:
    with pytest.raises(keys.KeyMaterialError, match="do not belong together"):
        Authority(authority.certificate_pem, Authority.create(now=NOW).key_pem)


def test_a_certificate_that_may_not_sign_is_no_authority(authority: Authority) -> None:
    plain = client(authority)
    with pytest.raises(keys.KeyMaterialError, match="not the certificate of an authority"):
        Authority(plain.certificate, plain.key)


@pytest.mark.parametrize("pem", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_named(pem: bytes) -> None:
    with pytest.raises(keys.KeyMaterialError, match=r"ca\.key"):
        keys.from_pem(pem, source="ca.key")


def test_keys_do_not_show_themselves(authority: Authority) -> None:
    assert "PRIVATE" not in repr(client(authority))


def test_hosts_are_distinguished_from_addresses() -> None:
    names = Names.of(["localhost", "127.0.0.1", "::1", "localhost"])
    assert names.dns == ("localhost",)
    assert [str(one) for one in names.addresses] == ["127.0.0.1", "::1"]


class Handshake:
    """A client and a server that do a handshake in memory."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, *, host: str = "localhost") -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        self.client = client.wrap_bio(to_client, to_server, server_hostname=host)

    def run(self) -> bytes | None:
        """The client's certificate as the server got it; ssl.SSLError if either side refused."""
        for _ in range(4):
            for side in (self.client, self.server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return self.server.getpeercert(binary_form=True)


def trusting(authority: Authority, tmp_path: Path, identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    if identity is not None:
        path = tmp_path / "client.pem"
        path.write_bytes(identity.certificate + identity.key)
        context.load_cert_chain(path)
    return context


@pytest.fixture(scope="module")
def today() -> Authority:
    """OpenSSL uses the real clock."""
    return Authority.create(now=SystemClock().now())


def serving(authority: Authority, *hosts: str) -> Identity:
    now = authority.not_after - authorities.AUTHORITY_LIFETIME_S
    names = Names.of(hosts or ("localhost",))
    return authority.issue(
        Subject(common_name="rota"), purpose=Purpose.SERVER, now=now, lifetime_s=authorities.DAY_S, names=names
    )


def issued(authority: Authority, *, purpose: Purpose = Purpose.CLIENT, lifetime_s: float = 3600.0) -> Identity:
    now = authority.not_after - authorities.AUTHORITY_LIFETIME_S
    return authority.issue(ALICE, purpose=purpose, now=now, lifetime_s=lifetime_s)


def test_server_and_client_of_one_authority_know_each_other(today: Authority, tmp_path: Path) -> None:
    server = contexts.server(serving(today), client_authorities=today.certificate_pem)
    shown = Handshake(server, trusting(today, tmp_path, issued(today))).run()
    assert shown is not None
    assert certificates.facts(certificates.read_der(shown)).subject == ALICE


def test_a_client_may_come_without_a_certificate(today: Authority, tmp_path: Path) -> None:
    server = contexts.server(serving(today), client_authorities=today.certificate_pem)
    assert Handshake(server, trusting(today, tmp_path)).run() is None


@pytest.mark.parametrize("flaw", ["foreign", "expired", "a server's"])
def test_a_client_certificate_that_is_not_good_ends_the_handshake(flaw: str, today: Authority, tmp_path: Path) -> None:
    wrong = {
        "foreign": lambda: issued(Authority.create(now=today.not_after - authorities.AUTHORITY_LIFETIME_S)),
        "expired": lambda: issued(today, lifetime_s=-60),
        "a server's": lambda: issued(today, purpose=Purpose.SERVER),
    }[flaw]()
    server = contexts.server(serving(today), client_authorities=today.certificate_pem)
    with pytest.raises(ssl.SSLError):
        Handshake(server, trusting(today, tmp_path, wrong)).run()


def test_a_listener_that_checks_times_itself_sees_an_expired_certificate_and_no_foreign_one(
    today: Authority, tmp_path: Path
) -> None:
    server = contexts.server(serving(today), client_authorities=today.certificate_pem, check_times=False)
    assert Handshake(server, trusting(today, tmp_path, issued(today, lifetime_s=-60))).run() is not None
    foreign = issued(Authority.create(now=today.not_after - authorities.AUTHORITY_LIFETIME_S))
    with pytest.raises(ssl.SSLError):
        Handshake(server, trusting(today, tmp_path, foreign)).run()


def test_a_server_is_only_believed_under_its_names(today: Authority, tmp_path: Path) -> None:
    server = contexts.server(serving(today, "api.example"), client_authorities=today.certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match="localhost"):
        Handshake(server, trusting(today, tmp_path)).run()


def test_a_running_context_shows_its_new_certificate_to_the_next_client(today: Authority, tmp_path: Path) -> None:
    server = contexts.server(serving(today), client_authorities=today.certificate_pem)
    before = Handshake(server, trusting(today, tmp_path))
    before.run()
    fresh = serving(today)
    contexts.use(server, fresh)
    after = Handshake(server, trusting(today, tmp_path))
    after.run()
    shown = after.client.getpeercert(binary_form=True)
    assert shown != before.client.getpeercert(binary_form=True)
    assert shown == certificates.to_der(certificates.read_pem(fresh.certificate, source="it"))
