"""ID tokens of a provider that runs beside the test, on loopback, over TLS."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.apiserver.authentication.harness import Entrance

from rota.apiserver.authentication import authentication_config, oidc
from rota.apiserver.authentication.oidc import Provider, ProviderError
from rota.apiserver.authentication.tokens import Rejected
from rota.kit.system import SystemClock
from rota.pki import contexts, keys
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """A small OpenID provider that signs any token."""

    def __init__(self) -> None:
        self.authority = Authority.create(now=SystemClock().now())
        self.keys: dict[str, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {"one": RSA}
        self.url = ""
        #: What the configuration says instead of the address.
        self.pretended = ""
        self.fetches = 0

    def token(self, clock: FakeClock, *, key: str = "one", algorithm: str = "RS256", **changes: Any) -> str:
        said = {
            "iss": self.url,
            "aud": "rota-cli",
            "sub": "4711",
            "email": "ann@example.com",
            "groups": ["dev", "ops"],
            "exp": int(clock.now()) + 600,
        }
        kept = {name: value for name, value in {**said, **changes}.items() if value is not None}
        return jwt.encode(kept, self.keys[key], algorithm=algorithm, headers={"kid": key})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Issuer"]:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        identity = self.authority.issue(
            Subject(common_name="issuer"),
            purpose=Purpose.SERVER,
            now=SystemClock().now(),
            lifetime_s=DAY_S,
            names=Names.of(["127.0.0.1"]),
        )
        runner = web.AppRunner(app)
        await runner.setup()
        tls = contexts.server(identity, client_authorities=self.authority.certificate_pem)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _configuration(self, request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.pretended or self.url, "jwks_uri": f"{self.url}/keys"})

    async def _keys(self, request: web.Request) -> web.Response:
        self.fetches += 1
        return web.json_response({"keys": [{**_public(key), "kid": name} for name, key in self.keys.items()]})


def _public(key: Any) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
    return algorithm.to_jwk(key.public_key(), as_dict=True)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer().serving() as running:
        yield running


@contextlib.asynccontextmanager
async def entrance_of(issuer: Issuer, clock: FakeClock, **settings: Any) -> AsyncIterator[Entrance]:
    known: dict[str, Any] = {"certificate_authority": issuer.authority.certificate_pem, **settings}
    provider = Provider(issuer_url=issuer.url, client_id="rota-cli", **known)
    chosen = authentication_config.Settings(providers=(provider,))
    async with ApiServer(clock=clock, signing_in=chosen) as api:
        yield Entrance(api, clock, chosen)


async def test_a_providers_user_is_a_user_here(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups", groups_prefix="oidc:") as entrance:
        assert await entrance.user(issuer.token(clock)) == {
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
async def test_a_user_is_named_as_upstream_names_it(settings: Any, name: str, issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, **settings) as entrance:
        assert (await entrance.user(issuer.token(clock)))["username"] == name


async def test_elliptic_keys_are_as_good(issuer: Issuer, clock: FakeClock) -> None:
    issuer.keys["curve"] = keys.generate()
    async with entrance_of(issuer, clock, signing_algorithms=("RS256", "ES256")) as entrance:
        assert not await entrance.refuses(issuer.token(clock, key="curve", algorithm="ES256"))


async def test_an_algorithm_that_was_not_chosen_is_refused(issuer: Issuer, clock: FakeClock) -> None:
    issuer.keys["curve"] = keys.generate()
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token(clock, key="curve", algorithm="ES256"))
        assert await entrance.refuses(issuer.token(clock, algorithm="RS512"))


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
async def test_a_token_that_is_not_right_is_refused(changes: Any, issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups") as entrance:
        assert await entrance.refuses(issuer.token(clock, **changes))


async def test_no_provider_makes_administrators_of_the_cluster(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, groups_claim="groups", username_prefix="-") as entrance:
        assert await entrance.refuses(issuer.token(clock, groups=["system:masters"]))
        assert await entrance.refuses(issuer.token(clock, sub="system:admin"))


async def test_a_mail_address_must_be_verified(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, username_claim="email") as entrance:
        assert await entrance.refuses(issuer.token(clock, email_verified=False))
        assert not await entrance.refuses(issuer.token(clock, email_verified=True))


async def test_required_claims_are_required(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock, required_claims={"hd": "example.com"}) as entrance:
        assert await entrance.refuses(issuer.token(clock))
        assert await entrance.refuses(issuer.token(clock, hd="elsewhere.com"))
        assert not await entrance.refuses(issuer.token(clock, hd="example.com"))


async def test_another_issuers_token_is_refused_without_asking_anybody(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token(clock, iss="https://elsewhere.example"))
        assert issuer.fetches == 0


async def test_a_foreign_key_under_a_known_name_is_refused(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token(clock))
        issuer.keys["one"] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert await entrance.refuses(issuer.token(clock, sub="another"))


async def test_new_keys_are_fetched_at_a_limited_rate(issuer: Issuer, clock: FakeClock) -> None:
    async with entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token(clock))
        issuer.keys["two"] = RSA
        await clock.advance(11)
        assert not await entrance.refuses(issuer.token(clock, key="two"))
        assert issuer.fetches == 2
        issuer.keys["three"] = RSA
        for number in range(20):
            assert await entrance.refuses(issuer.token(clock, key="three", sub=f"forger-{number}"))
        assert issuer.fetches == 2


async def test_known_keys_stay_good_while_the_provider_is_out_of_order(clock: FakeClock) -> None:
    async with Issuer().serving() as issuer, entrance_of(issuer, clock) as entrance:
        assert not await entrance.refuses(issuer.token(clock))
        issuer.pretended, issuer.keys["two"] = "https://broken.example", RSA
        await clock.advance(30)
        assert await entrance.refuses(issuer.token(clock, key="two"))
        assert not await entrance.refuses(issuer.token(clock, sub="next"))


async def test_a_token_for_another_issuer_is_refused(issuer: Issuer, clock: FakeClock) -> None:
    issuer.pretended = "https://somebody.else"
    async with entrance_of(issuer, clock) as entrance:
        assert await entrance.refuses(issuer.token(clock))


async def test_a_provider_without_a_certificate_that_we_trust_is_not_asked(issuer: Issuer, clock: FakeClock) -> None:
    foreign = Authority.create(now=SystemClock().now()).certificate_pem
    async with entrance_of(issuer, clock, certificate_authority=foreign) as entrance:
        assert await entrance.refuses(issuer.token(clock))
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
