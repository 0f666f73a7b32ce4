"""ID tokens of a provider that runs beside the test, on loopback, over TLS."""

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.apiserver.authentication.harness import Entrance

from rota.apiserver.authentication import authentication_config, oidc
from rota.apiserver.authentication.oidc_provider import Provider, ProviderError
from rota.apiserver.authentication.tokens import Rejected
from rota.kit.system import SystemClock
from rota.pki import keys
from rota.pki.authorities import Authority
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.openid_provider import RSA, OpenIdProvider


@pytest.fixture
async def issuer(clock: FakeClock) -> AsyncIterator[OpenIdProvider]:
    async with OpenIdProvider(clock).serving() as running:
        yield running


@contextlib.asynccontextmanager
async def entrance_of(issuer: OpenIdProvider, clock: FakeClock, **settings: Any) -> AsyncIterator[Entrance]:
    known: dict[str, Any] = {"certificate_authority": issuer.authority.certificate_pem, **settings}
    provider = Provider(issuer_url=issuer.url, client_id="rota-cli", **known)
    chosen = authentication_config.Settings(providers=(provider,))
    async with ApiServer(clock=clock, signing_in=chosen) as api:
        yield Entrance(api, clock, chosen)


async def test_a_providers_user_is_a_user_here(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups", groups_prefix="oidc:") as entrance:
        assert await entrance.user(issuer.token()) == {
            "username": f"{issuer.url}#4711",
            "groups": ["oidc:dev", "oidc:ops", "system:authenticated"],
        }


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"username_claim": "email"}, "ann@example.com"),
        ({"username_claim": "email", "username_prefix": "o:"}, "o:ann@example.com"),
        ({"username_prefix": "-"}, "4711"),
        ({"username_prefix": "o:"}, "o:4711"),
    ],
)
async def test_a_user_is_named_as_upstream_names_it(
    settings: Any, name: str, issuer: OpenIdProvider, clock: FakeClock
) -> None:
    async with entrance_of(issuer, clock, **settings) as entrance:
        assert (await entrance.user(issuer.token()))["username"] == name


async def test_elliptic_keys_are_as_good(issuer: OpenIdProvider, clock: FakeClock) -> None:
    issuer.keys["curve"] = keys.generate()
    async with entrance_of(issuer, clock, signing_algorithms=("RS256", "ES256")) as entrance:
        assert not await entrance.refuses(issuer.token(key="curve", algorithm="ES256"))


async def test_an_algorithm_that_was_not_chosen_is_refused(issuer: OpenIdProvider, clock: FakeClock) -> None:
    issuer.keys["curve"] = keys.generate()
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token(key="curve", algorithm="ES256"))
        assert await entrance.refuses(issuer.token(algorithm="RS512"))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another-client"},
        {"aud": None},
        {"exp": 1_600_000_000},
        {"exp": None},
        {"nbf": 1_800_000_000},
        {"sub": None},
        {"sub": 4711},
        {"groups": 7},
        {"groups": ["dev", 7]},
    ],
)
async def test_a_token_that_is_not_right_is_refused(changes: Any, issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups") as entrance:
        assert await entrance.refuses(issuer.token(**changes))


async def test_a_token_that_its_bearer_could_have_made_is_refused(issuer: OpenIdProvider, clock: FakeClock) -> None:
    """Without a signature, or signed with the public key of the provider as a shared secret."""
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    public = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header, body, _ = issuer.token().split(".")
    forged = _part({"alg": "HS256", "typ": "JWT", "kid": "one"}) + "." + body
    signature = hmac.new(public, forged.encode(), hashlib.sha256).digest()
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(f"{_part({'alg': 'none', 'kid': 'one'})}.{body}.")
        assert await entrance.refuses(f"{forged}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}")
        assert await entrance.refuses(f"{header}.{_part({**claims, 'sub': 'admin'})}.{issuer.token().split('.')[2]}")
        assert await entrance.refuses(issuer.token(iat=1, nbf=int(clock.now()) + 3600))


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


async def test_no_provider_makes_administrators_of_the_cluster(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups", username_prefix="-") as entrance:
        assert await entrance.refuses(issuer.token(groups=["system:masters"]))
        assert await entrance.refuses(issuer.token(sub="system:admin"))


async def test_a_mail_address_must_be_verified(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, username_claim="email") as entrance:
        assert await entrance.refuses(issuer.token(email_verified=False))
        assert not await entrance.refuses(issuer.token(email_verified=True))


async def test_required_claims_are_required(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, required_claims={"hd": "example.com"}) as entrance:
        assert await entrance.refuses(issuer.token())
        assert await entrance.refuses(issuer.token(hd="elsewhere.com"))
        assert not await entrance.refuses(issuer.token(hd="example.com"))


async def test_another_issuers_token_is_refused_without_asking_anybody(
    issuer: OpenIdProvider, clock: FakeClock
) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token(iss="https://elsewhere.example"))
        assert issuer.fetches == 0


async def test_a_foreign_key_under_a_known_name_is_refused(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token())
        issuer.keys["one"] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert await entrance.refuses(issuer.token(sub="another"))


async def test_new_keys_are_fetched_at_a_limited_rate(issuer: OpenIdProvider, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token())
        issuer.keys["two"] = RSA
        await clock.advance(11)
        assert not await entrance.refuses(issuer.token(key="two"))
        assert issuer.fetches == 2
        issuer.keys["three"] = RSA
        for number in range(20):
            assert await entrance.refuses(issuer.token(key="three", sub=f"forger-{number}"))
        assert issuer.fetches == 2


async def test_known_keys_stay_good_while_the_provider_is_out_of_order(clock: FakeClock) -> None:
    async with OpenIdProvider(clock).serving() as issuer, entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token())
        issuer.pretended, issuer.keys["two"] = "https://broken.example", RSA
        await clock.advance(30)
        assert await entrance.refuses(issuer.token(key="two"))
        assert not await entrance.refuses(issuer.token(sub="next"))


async def test_a_token_for_another_issuer_is_refused(issuer: OpenIdProvider, clock: FakeClock) -> None:
    issuer.pretended = "https://somebody.else"
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token())


async def test_a_provider_without_a_certificate_that_we_trust_is_not_asked(
    issuer: OpenIdProvider, clock: FakeClock
) -> None:
    foreign = Authority.create(now=SystemClock().now()).certificate_pem
    async with entrance_of(issuer, clock, certificate_authority=foreign) as entrance:
        assert await entrance.refuses(issuer.token())
        assert issuer.fetches == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"issuer_url": "http://id.example", "client_id": "c"}, "no https address"),
        ({"issuer_url": "https://id.example", "client_id": ""}, "client id is missing"),
        ({"issuer_url": "https://id.example", "client_id": "c", "signing_algorithms": ("HS256",)}, "HS256"),
        ({"issuer_url": "https://id.example", "client_id": "c", "signing_algorithms": ("none",)}, "none"),
    ],
)
def test_settings_that_would_be_unsafe_are_refused(settings: Any, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        Provider(**settings)


def test_a_single_group_need_not_be_a_list() -> None:
    provider = Provider(issuer_url="https://id.example", client_id="c", groups_claim="role", username_prefix="-")
    assert oidc.user({"sub": "a", "role": "dev"}, provider).groups == ("dev",)
    with pytest.raises(Rejected):
        oidc.user({"sub": "a", "role": {"dev": True}}, provider)
