"""Which user a request is authenticated as."""

import random
from pathlib import Path

import pytest
from tests.apiserver.authentication.harness import Entrance

from rota.api import errors, users
from rota.api.users import User
from rota.apiserver.authentication import static_tokens
from rota.apiserver.authentication.certificates import CertificateHolders
from rota.apiserver.authentication.request_authenticator import RequestAuthenticator
from rota.apiserver.authentication.static_tokens import StaticTokens, TokenFileError
from rota.apiserver.authentication.tokens import Tokens
from rota.apiserver.interfaces import Credentials
from rota.client import client_factory
from rota.pki import certificates
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Subject
from rota.testing.clocks import FakeClock

AUDIENCES = ("api",)
SELF_REVIEWS = ("authentication.k8s.io", "v1", "selfsubjectreviews")


def authenticator(clock: FakeClock) -> RequestAuthenticator:
    tokens = StaticTokens({"bobs": User(name="bob", groups=("ops",))}, audiences=AUDIENCES)
    return RequestAuthenticator(
        CertificateHolders(clock), Tokens([tokens], clock=clock), audiences=AUDIENCES, clock=clock
    )


def certificate(clock: FakeClock, subject: Subject) -> bytes:
    authority = Authority.create(now=clock.now())
    issued = authority.issue(subject, purpose=Purpose.CLIENT, now=clock.now(), lifetime_s=600)
    return certificates.to_der(certificates.read_pem(issued.certificate, source="it"))


ALICE = Subject(common_name="alice", organizations=("dev", "test"))


async def test_a_request_without_credentials_is_anonymous(clock: FakeClock) -> None:
    assert await authenticator(clock).authenticate(Credentials(headers={})) == users.ANONYMOUS


async def test_a_certificate_names_user_and_groups(clock: FakeClock) -> None:
    shown = certificate(clock, ALICE)
    user = await authenticator(clock).authenticate(Credentials(headers={}, peer_certificate=shown))
    assert (user.name, user.groups) == ("alice", ("dev", "test", "system:authenticated"))
    (digest,) = user.extra["authentication.kubernetes.io/credential-id"]
    assert digest.startswith("X509SHA256=")


async def test_a_certificate_counts_before_a_token(clock: FakeClock) -> None:
    shown = Credentials(headers={b"authorization": b"Bearer bobs"}, peer_certificate=certificate(clock, ALICE))
    assert (await authenticator(clock).authenticate(shown)).name == "alice"


async def test_a_certificate_that_ends_while_its_connection_stands_is_refused(clock: FakeClock) -> None:
    asked, shown = authenticator(clock), Credentials(headers={}, peer_certificate=certificate(clock, ALICE))
    assert (await asked.authenticate(shown)).name == "alice"
    await clock.advance(601)
    with pytest.raises(errors.Unauthorized):
        await asked.authenticate(shown)


async def test_a_token_helps_where_a_certificate_has_ended(clock: FakeClock) -> None:
    shown = Credentials(headers={b"authorization": b"Bearer bobs"}, peer_certificate=certificate(clock, ALICE))
    await clock.advance(601)
    assert (await authenticator(clock).authenticate(shown)).name == "bob"


async def test_a_certificate_without_a_common_name_has_no_user(clock: FakeClock) -> None:
    shown = certificate(clock, Subject(common_name="", organizations=("system:masters",)))
    user = await authenticator(clock).authenticate(Credentials(headers={}, peer_certificate=shown))
    assert user == users.ANONYMOUS


async def test_what_is_no_certificate_is_refused(clock: FakeClock) -> None:
    with pytest.raises(errors.Unauthorized):
        await authenticator(clock).authenticate(Credentials(headers={}, peer_certificate=b"nonsense"))


@pytest.mark.parametrize("header", ["Bearer bobs", "bearer bobs", "BEARER bobs", "Bearer bobs and more"])
async def test_the_scheme_of_a_token_is_not_case_sensitive(header: str, clock: FakeClock) -> None:
    credentials = Credentials(headers={b"authorization": header.encode()})
    assert (await authenticator(clock).authenticate(credentials)).name == "bob"


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic Ym9iOmJvYg==", "bobs", ""])
async def test_other_headers_are_no_tokens(header: str, clock: FakeClock) -> None:
    credentials = Credentials(headers={b"authorization": header.encode()})
    assert await authenticator(clock).authenticate(credentials) == users.ANONYMOUS


@pytest.mark.parametrize("token", ["alices", "bob", "bobs.x.y", "a.b.c", "\xff\xfe", "x" * 100_000])
async def test_an_unknown_token_is_refused_and_not_anonymous(token: str, clock: FakeClock) -> None:
    credentials = Credentials(headers={b"authorization": f"Bearer {token}".encode("latin-1")})
    with pytest.raises(errors.Unauthorized, match=r"^Unauthorized$"):
        await authenticator(clock).authenticate(credentials)


async def test_the_log_says_why_but_not_the_token_and_not_ten_thousand_times(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    asked = authenticator(clock)
    wrong = Credentials(headers={b"authorization": b"Bearer guess-me"}, address="192.0.2.7")
    for _ in range(10_000):
        with pytest.raises(errors.Unauthorized):
            await asked.authenticate(wrong)
    assert caplog.messages == ["credentials refused"]
    await clock.advance(1)
    with pytest.raises(errors.Unauthorized):
        await asked.authenticate(wrong)
    assert len(caplog.messages) == 2
    shown = " ".join(str(record.__dict__) for record in caplog.records)
    assert "192.0.2.7" in shown
    assert "no origin knows the token" in shown
    assert "9999" in shown
    assert "guess-me" not in shown


async def test_a_refusal_says_nothing_of_what_exists(entrance: Entrance) -> None:
    for path in ("/api/v1/namespaces/default", "/api/v1/namespaces/missing", "/api/v1/secrets"):
        refused = await entrance.ask("GET", path, authorization="Bearer wrong")
        assert (refused.code, refused.json["message"]) == (401, "Unauthorized")


async def test_a_part_of_this_process_acts_as_the_user_it_says(entrance: Entrance) -> None:
    part = User(name="system:kube-scheduler", groups=("system:authenticated",))
    app, clock = entrance.api.app, entrance.clock
    async with client_factory.to_application(app, clock=clock, rng=random.Random(0), user=part) as client:
        made = await client.create(
            SELF_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        )
    assert made["status"]["userInfo"]["username"] == "system:kube-scheduler"


def test_token_files_are_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('# comment\n\nsecret1,alice,uid-1,"dev, ops"\nsecret2,bob,uid-2\nsecret3,eve,uid-3,one\n')
    assert static_tokens.read(path) == {
        "secret1": User(name="alice", uid="uid-1", groups=("dev", "ops")),
        "secret2": User(name="bob", uid="uid-2"),
        "secret3": User(name="eve", uid="uid-3", groups=("one",)),
    }


@pytest.mark.parametrize("line", ["secret,alice", ",alice,1", "secret,,1"])
def test_a_wrong_line_of_a_token_file_is_named_without_its_token(line: str) -> None:
    with pytest.raises(TokenFileError, match="line 2") as refused:
        static_tokens.parse(f"a,b,c\n{line}\n", source="tokens.csv")
    assert "secret" not in str(refused.value)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        static_tokens.read(tmp_path / "missing.csv")
