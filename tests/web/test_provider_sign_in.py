"""Signing in at an OpenID Connect provider, over real connections: the code flow, renewal, what is refused."""

import asyncio
import contextlib
import http.cookies
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from rota.apiserver.authentication import authentication_config
from rota.apiserver.authentication.oidc_provider import Provider
from rota.apiserver.server import http_server
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.openid_provider import OpenIdProvider
from rota.web import provider_sign_in, serving, sessions
from rota.web.application import Dashboard, Unanswered
from rota.web.provider_sign_in import ProviderSignIn


@dataclass
class Browser:
    """A browser with its cookies, and a page of the dashboard with its key."""

    url: str
    http: aiohttp.ClientSession
    page_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookies: dict[str, str] = field(default_factory=dict)

    async def ask(self, method: str, path: str, body: Any = None, **changes: str) -> tuple[int, Any]:
        """A request of the page."""
        headers = {
            "Sec-Fetch-Site": "same-origin",
            "Origin": self.url,
            "X-Rota-Page-Key": self.page_key,
            "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        async with self.http.request(method, self.url + path, json=body, headers=headers) as answer:
            for one in answer.headers.getall("set-cookie", []):
                for name, morsel in http.cookies.SimpleCookie(one).items():
                    self.cookies[name] = morsel.value
                    if morsel["max-age"] == "0":
                        del self.cookies[name]
            return answer.status, await answer.json()

    async def begin(self) -> dict[str, str]:
        """Go to the provider; what it is asked for."""
        code, told = await self.ask("POST", "/dashboard/sign-in", {"pageKey": self.page_key})
        assert code == 200, told
        return {name: one[0] for name, one in parse_qs(urlsplit(told["location"]).query).items()}

    async def finish(self, code: str, state: str, **changes: str) -> tuple[int, Any]:
        """Come back with a code."""
        asked = {"pageKey": self.page_key, "code": code, "state": state, **changes}
        return await self.ask("POST", "/dashboard/session", asked)

    async def listing(self) -> int:
        return (await self.ask("GET", "/api/v1/namespaces"))[0]


@dataclass
class Organization:
    """Two masters of a cluster whose users sign in at a provider; ann may see everything."""

    provider: OpenIdProvider
    first: str
    second: str
    http: aiohttp.ClientSession

    def browser(self) -> Browser:
        return Browser(self.first, self.http)

    async def signed_in(self) -> Browser:
        browser = self.browser()
        asked = await browser.begin()
        code, told = await browser.finish(self.provider.code(asked, "ann"), asked["state"])
        assert (code, told["user"]) == (200, "ann@example.com")
        return browser


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def organization(clock: FakeClock) -> AsyncIterator[Organization]:
    async with contextlib.AsyncExitStack() as parts:
        provider = await parts.enter_async_context(OpenIdProvider(clock).serving())
        chosen = Provider(
            issuer_url=provider.url,
            client_id=provider.client_id,
            username_claim="email",
            groups_claim="groups",
            certificate_authority=provider.authority.certificate_pem,
        )
        server = await parts.enter_async_context(
            ApiServer(clock=clock, signing_in=authentication_config.Settings(providers=(chosen,)))
        )
        binding = {
            "metadata": {"name": "ann"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann@example.com"}],
        }
        admin = server.acting_as("admin", "system:masters")
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await admin.post(path, binding)).code == 201
        served = []
        for _ in range(2):
            dashboard = await parts.enter_async_context(
                serving.dashboard(server.app, secret=b"x" * 32, names=(), clock=clock, rng=server._rng, provider=chosen)
            )
            served.append(await parts.enter_async_context(http_server.serve(dashboard)))
        session = await parts.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        yield Organization(provider, served[0].url, served[1].url, session)


async def test_the_page_names_the_provider(organization: Organization) -> None:
    _, told = await organization.browser().ask("GET", "/dashboard/features")
    assert told["provider"] == organization.provider.url.removeprefix("https://")


async def test_a_code_of_the_provider_signs_in(organization: Organization) -> None:
    browser = organization.browser()
    asked = await browser.begin()
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{organization.first}/dashboard/"
    assert asked["scope"] == "openid email groups offline_access"
    status, told = await browser.finish(organization.provider.code(asked, "ann"), asked["state"])
    assert status == 200
    assert told["user"] == "ann@example.com"
    assert told["renewIn"] == pytest.approx(480, abs=2), "at four fifths of the life of the token"
    assert set(browser.cookies) == {"__Host-rota-session", "__Host-rota-refresh"}
    assert await browser.listing() == 200
    kept = " ".join(browser.cookies.values())
    assert not [one for one in organization.provider.refresh_tokens if one in kept], "cookies are sealed"


async def test_another_master_finishes_what_one_began(organization: Organization) -> None:
    browser = organization.browser()
    asked = await browser.begin()
    browser.url = organization.second
    assert (await browser.finish(organization.provider.code(asked, "ann"), asked["state"]))[0] == 200
    assert await browser.listing() == 200


async def test_a_code_is_for_the_browser_that_began(organization: Organization) -> None:
    """An attacker's code in the address of a victim's page, or a victim's code in an attacker's browser."""
    attacker, victim = organization.browser(), organization.browser()
    asked = await attacker.begin()
    code = organization.provider.code(asked, "ann")
    assert (await victim.finish(code, asked["state"]))[0] == 401, "the victim has begun nothing"
    begun = await victim.begin()
    assert (await victim.finish(code, asked["state"]))[0] == 401, "the state is of another sign-in"
    assert (await victim.finish(code, begun["state"]))[0] == 401, "the verifier is of another sign-in"
    assert sessions.COOKIE not in victim.cookies
    fresh = organization.provider.code(begun, "ann")
    assert (await victim.finish(fresh, asked["state"]))[0] == 401, "the code is right and the state is not"
    victim.page_key, kept = secrets.token_urlsafe(32), victim.page_key
    assert (await victim.finish(fresh, begun["state"]))[0] == 401, "the page key is another one"
    victim.page_key = kept
    assert (await victim.finish(fresh, begun["state"]))[0] == 200
    assert (await victim.finish(fresh, begun["state"]))[0] == 401, "the sign-in is over"


async def test_only_the_own_page_begins_and_finishes(organization: Organization) -> None:
    browser = organization.browser()
    begin = {"pageKey": browser.page_key}
    assert (await browser.ask("POST", "/dashboard/sign-in", begin, Origin="http://evil.example"))[0] == 403
    assert (await browser.ask("POST", "/dashboard/sign-in", begin, Host="evil.example"))[0] == 421
    assert (await browser.ask("POST", "/dashboard/sign-in", {"pageKey": "short"}))[0] == 400
    asked = await browser.begin()
    finish = {"pageKey": browser.page_key, "code": organization.provider.code(asked, "ann"), "state": asked["state"]}
    assert (await browser.ask("POST", "/dashboard/session", finish, Sec_Fetch_Site="cross-site"))[0] == 403
    assert (await browser.ask("POST", "/dashboard/session", finish))[0] == 200
    assert (await browser.ask("PUT", "/dashboard/session", Sec_Fetch_Site="same-site"))[0] == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"aud": "another-client"},
        {"iss": "https://elsewhere.example"},
        {"exp": 1_600_000_000},
        {"nbf": 1_900_000_000},
        {"email_verified": False},
        {"groups": ["system:masters"]},
        {"groups": ["x" * 3000]},
    ],
)
async def test_a_token_that_is_not_right_does_not_sign_in(organization: Organization, changes: Any) -> None:
    browser = organization.browser()
    asked = await browser.begin()
    organization.provider.changes = changes
    code, told = await browser.finish(organization.provider.code(asked, "ann"), asked["state"])
    assert code in {400, 401}, told
    assert sessions.COOKIE not in browser.cookies


async def test_a_sign_in_takes_ten_minutes_at_most(organization: Organization, clock: FakeClock) -> None:
    browser = organization.browser()
    asked = await browser.begin()
    await clock.advance(601)
    code, told = await browser.finish(organization.provider.code(asked, "ann"), asked["state"])
    assert code == 401
    assert "ten minutes" in told["message"]


async def test_a_session_goes_on_with_renewed_tokens_and_ends_without(
    organization: Organization, clock: FakeClock
) -> None:
    browser = await organization.signed_in()
    for _ in range(3):
        await clock.advance(601)
        assert await browser.listing() == 401, "the token has expired"
        code, told = await browser.ask("PUT", "/dashboard/session")
        assert (code, told["renewIn"]) == (200, pytest.approx(480, abs=2))
        assert await browser.listing() == 200
    assert organization.provider.refreshed == 3
    organization.provider.refresh_tokens.clear()
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 401


async def test_a_renewal_does_not_make_a_session_longer(organization: Organization, clock: FakeClock) -> None:
    organization.provider.lifetime_s = 7 * 3600.0
    browser = await organization.signed_in()
    await clock.advance(6 * 3600.0)
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 200
    await clock.advance(3 * 3600.0)
    assert await browser.listing() == 401
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 401


async def test_a_renewed_token_is_for_the_same_user(organization: Organization) -> None:
    browser = await organization.signed_in()
    organization.provider.changes = {"sub": "another", "email": "bob@example.com"}
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 401


async def test_a_refresh_token_belongs_to_its_session(organization: Organization) -> None:
    one, other = await organization.signed_in(), await organization.signed_in()
    one.cookies["__Host-rota-refresh"] = other.cookies["__Host-rota-refresh"]
    assert (await one.ask("PUT", "/dashboard/session"))[0] == 401
    assert organization.provider.refreshed == 0


async def test_a_provider_without_refresh_tokens_signs_in_for_one_token(organization: Organization) -> None:
    organization.provider.refreshes = False
    browser = organization.browser()
    asked = await browser.begin()
    _, told = await browser.finish(organization.provider.code(asked, "ann"), asked["state"])
    assert told["renewIn"] == 0
    assert set(browser.cookies) == {"__Host-rota-session"}
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 401


async def test_signing_out_revokes_the_refresh_token(organization: Organization) -> None:
    browser = await organization.signed_in()
    (kept,) = organization.provider.refresh_tokens
    assert (await browser.ask("DELETE", "/dashboard/session"))[0] == 200
    assert browser.cookies == {}
    async with asyncio.timeout(60):  # it is revoked after the answer
        assert await organization.provider.revoked.get() == kept


async def test_a_cluster_that_is_busy_does_not_lose_a_renewed_token(
    organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider takes each refresh token once."""
    browser = await organization.signed_in()

    async def busy(*_: object) -> None:
        raise Unanswered("it answered 503")

    with monkeypatch.context() as patch:
        patch.setattr(Dashboard, "_who", busy)
        assert (await browser.ask("PUT", "/dashboard/session"))[0] == 200
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 200
    assert await browser.listing() == 200


async def test_a_renewal_does_not_undo_signing_out(organization: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await organization.signed_in()
    renewed, made = ProviderSignIn.renewed, []

    async def slow(self: ProviderSignIn, token: str, refresh_token: str) -> provider_sign_in.Tokens:
        tokens = await renewed(self, token, refresh_token)
        made.append(tokens.refresh_token)
        assert (await browser.ask("DELETE", "/dashboard/session"))[0] == 200
        return tokens

    monkeypatch.setattr(ProviderSignIn, "renewed", slow)
    assert (await browser.ask("PUT", "/dashboard/session"))[0] == 401
    assert browser.cookies == {}
    async with asyncio.timeout(60):  # it is revoked after the answer
        while [await organization.provider.revoked.get()] != made:
            pass


async def test_a_provider_that_does_not_answer_is_named_and_not_asked_at_once_again(
    organization: Organization, clock: FakeClock
) -> None:
    organization.provider.pretended = "https://somebody.else"
    browser = organization.browser()
    code, told = await browser.ask("POST", "/dashboard/sign-in", {"pageKey": browser.page_key})
    assert code == 503
    assert "speaks for another issuer" in told["message"]
    organization.provider.pretended = ""
    assert (await browser.ask("POST", "/dashboard/sign-in", {"pageKey": browser.page_key}))[0] == 503
    await clock.advance(6)
    assert await browser.begin()


@pytest.mark.parametrize(
    ("settings", "supported", "expected"),
    [
        ({}, None, ["openid"]),
        ({}, ["openid", "email", "offline_access"], ["openid", "offline_access"]),
        ({"username_claim": "email", "groups_claim": "groups"}, ["email"], ["openid", "email"]),
        ({"username_claim": "email"}, None, ["openid", "email"]),
        ({"username_claim": "preferred_username"}, ["profile", "groups"], ["openid", "profile"]),
        ({"groups_claim": "roles"}, ["groups"], ["openid", "groups"]),
    ],
)
def test_a_provider_is_asked_for_what_it_has_and_names_users_by(settings: Any, supported: Any, expected: Any) -> None:
    provider = Provider(issuer_url="https://id.example", client_id="c", **settings)
    assert provider_sign_in.scopes(provider, supported) == expected
