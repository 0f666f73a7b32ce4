"""Sessions and tickets: what begins one, what it needs, and when it ends."""

import pytest

from rota.testing.clocks import FakeClock
from rota.web import sessions
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser, Sessions

ALICE = SealedUser(name="alice", groups=("staff",))
KEY, OTHER = "k" * 43, "o" * 43


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def made(clock: FakeClock, secret: bytes = b"s" * 32) -> Sessions:
    return Sessions(Seal(secret), clock)


def carrying(set_cookie: str) -> dict[bytes, bytes]:
    return {b"cookie": b"other=1; " + set_cookie.partition(";")[0].encode()}


async def test_a_session_needs_its_cookie_and_its_page_key(clock: FakeClock) -> None:
    kept = made(clock)
    one = kept.begin(KEY, user=ALICE)
    kept.begin(OTHER, user=ALICE)
    found = kept.find(carrying(one), KEY)
    assert found is not None
    assert found.user == ALICE
    assert kept.find(carrying(one), "") is None
    assert kept.find(carrying(one), OTHER) is None
    assert kept.find({}, KEY) is None


async def test_every_master_with_the_same_secret_knows_a_session_and_no_other(clock: FakeClock) -> None:
    begun = made(clock).begin(KEY, token="t")
    assert made(clock).find(carrying(begun), KEY) is not None
    assert made(clock, b"x" * 32).find(carrying(begun), KEY) is None


async def test_a_changed_cookie_is_no_session(clock: FakeClock) -> None:
    kept = made(clock)
    for length in range(3):  # with and without bits of the last character that mean nothing
        begun = kept.begin(KEY, user=SealedUser(name="a" * (length + 1)))
        _assert_changes_are_noticed(kept, begun.partition(";")[0])


def _assert_changes_are_noticed(kept: Sessions, value: str) -> None:
    for at in (len(sessions.COOKIE) + 1, len(value) // 2, len(value) - 1):
        changed = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
        assert kept.find({b"cookie": changed.encode()}, KEY) is None
    assert kept.find({b"cookie": f"{sessions.COOKIE}=not base64!".encode()}, KEY) is None


async def test_a_session_ends_by_itself_and_by_signing_out(clock: FakeClock) -> None:
    kept = made(clock)
    begun = kept.begin(KEY, user=ALICE)
    found = kept.find(carrying(begun), KEY)
    assert found is not None
    assert "Max-Age=0" in kept.end(found)
    assert kept.find(carrying(begun), KEY) is None
    assert not kept.is_valid(found)
    later = kept.begin(KEY, user=ALICE)
    await clock.advance(sessions.LIFETIME_S + 1)
    assert kept.find(carrying(later), KEY) is None


async def test_a_ticket_is_for_one_page_and_for_a_minute(clock: FakeClock) -> None:
    kept = made(clock)
    ticket = kept.ticket(ALICE)
    assert kept.redeem(ticket, KEY) == ALICE
    assert kept.redeem(ticket, OTHER) is None
    assert kept.redeem(ticket, KEY) == ALICE, "a page whose answer was lost asks again"
    assert kept.redeem("invented", KEY) is None
    late = kept.ticket(ALICE)
    await clock.advance(sessions.TICKET_S + 1)
    assert kept.redeem(late, KEY) is None
    assert kept.redeem(ticket, KEY) is None


@pytest.mark.parametrize("text", ["", "short", "k" * 44, "ü" * 43, "k" * 42 + "\n", "k" * 42 + "/"])
def test_a_page_key_is_32_bytes_in_base64(text: str) -> None:
    assert sessions.is_page_key(KEY)
    assert not sessions.is_page_key(text)


async def test_the_cookie_is_for_this_host_over_a_secure_connection_and_not_for_scripts(clock: FakeClock) -> None:
    attributes = made(clock).begin(KEY, user=ALICE).split("; ")[1:]
    assert sessions.COOKIE.startswith("__Host-")
    assert attributes == ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"]
