"""Sessions and tickets: what begins one, what it needs, and when it ends."""

import pytest

from rota.testing.clocks import FakeClock
from rota.web import sessions
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser, Sessions

ALICE = SealedUser(name="alice", groups=("staff",))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def made(clock: FakeClock, secret: bytes = b"s" * 32) -> Sessions:
    return Sessions(Seal(secret), clock)


def carrying(begun: sessions.Begun) -> dict[bytes, bytes]:
    return {b"cookie": b"other=1; " + begun.set_cookie.partition(";")[0].encode()}


async def test_a_session_needs_its_cookie_and_its_page_key(clock: FakeClock) -> None:
    kept = made(clock)
    one, other = kept.begin(user=ALICE), kept.begin(user=ALICE)
    found = kept.find(carrying(one), one.page_key)
    assert found is not None
    assert found.user == ALICE
    assert kept.find(carrying(one), "") is None
    assert kept.find(carrying(one), other.page_key) is None
    assert kept.find({}, one.page_key) is None


async def test_every_master_with_the_same_secret_knows_a_session_and_no_other(clock: FakeClock) -> None:
    begun = made(clock).begin(token="t")
    assert made(clock).find(carrying(begun), begun.page_key) is not None
    assert made(clock, b"x" * 32).find(carrying(begun), begun.page_key) is None


async def test_a_changed_cookie_is_no_session(clock: FakeClock) -> None:
    kept = made(clock)
    begun = kept.begin(user=ALICE)
    value = begun.set_cookie.partition(";")[0]
    for at in (len(sessions.COOKIE) + 1, len(value) // 2, len(value) - 1):
        changed = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
        assert kept.find({b"cookie": changed.encode()}, begun.page_key) is None
    assert kept.find({b"cookie": f"{sessions.COOKIE}=not base64!".encode()}, begun.page_key) is None


async def test_a_session_ends_by_itself_and_by_signing_out(clock: FakeClock) -> None:
    kept = made(clock)
    begun = kept.begin(user=ALICE)
    found = kept.find(carrying(begun), begun.page_key)
    assert found is not None
    assert "Max-Age=0" in kept.end(found)
    assert kept.find(carrying(begun), begun.page_key) is None
    assert not kept.is_valid(found)
    later = kept.begin(user=ALICE)
    await clock.advance(sessions.LIFETIME_S + 1)
    assert kept.find(carrying(later), later.page_key) is None


async def test_a_ticket_is_valid_once_and_for_a_minute(clock: FakeClock) -> None:
    kept = made(clock)
    ticket = kept.ticket(ALICE)
    assert kept.redeem(ticket) == ALICE
    assert kept.redeem(ticket) is None
    assert kept.redeem("invented") is None
    late = kept.ticket(ALICE)
    await clock.advance(sessions.TICKET_S + 1)
    assert kept.redeem(late) is None


async def test_the_cookie_is_for_this_host_over_a_secure_connection_and_not_for_scripts(clock: FakeClock) -> None:
    attributes = made(clock).begin(user=ALICE).set_cookie.split("; ")[1:]
    assert sessions.COOKIE.startswith("__Host-")
    assert attributes == ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"]
