"""Leader election: the rules, and candidates on a real API server in virtual time."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.api import errors
from rota.client.elections import lease_claims
from rota.client.elections.elector import LEASES, PROMPT, STEADY, Election, LeaderElector, LeadershipLost, Pace
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.elections.lease_claims import Term
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

UPSTREAM = Pace()
SPEC = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "t1", "leaseTransitions": 3}


def test_a_lease_is_believed_for_its_duration_after_its_last_change() -> None:
    seen = lease_claims.observe(None, {"spec": SPEC}, now=100.0)
    again = lease_claims.observe(seen, {"spec": dict(SPEC)}, now=110.0)
    assert again.at == 100.0
    assert not lease_claims.may_claim(again, "b", 114.9)
    assert lease_claims.may_claim(again, "b", 115.0)
    renewed = lease_claims.observe(again, {"spec": {**SPEC, "renewTime": "t2"}}, now=114.0)
    assert not lease_claims.may_claim(renewed, "b", 128.9)


def test_an_own_or_a_free_lease_may_be_claimed_at_once() -> None:
    assert lease_claims.may_claim(lease_claims.observe(None, {"spec": SPEC}, 0.0), "a", 0.0)
    assert lease_claims.may_claim(lease_claims.observe(None, {"spec": {**SPEC, "holderIdentity": ""}}, 0.0), "b", 0.0)
    assert lease_claims.may_claim(lease_claims.observe(None, {}, 0.0), "b", 0.0)


def test_every_term_but_no_renewal_counts_as_a_transition() -> None:
    held = {**SPEC, "acquireTime": "then"}
    renewed = lease_claims.next_claim(held, "a", duration_s=15, now=0, renewing=True)
    assert (renewed["leaseTransitions"], renewed["acquireTime"]) == (3, "then")
    again = lease_claims.next_claim(held, "a", duration_s=15, now=0, renewing=False)
    assert (again["leaseTransitions"], again["holderIdentity"]) == (4, "a")
    taken = lease_claims.next_claim({**held, "strategy": "x"}, "b", duration_s=15, now=0, renewing=False)
    assert (taken["leaseTransitions"], taken["holderIdentity"], taken["strategy"]) == (4, "b", "x")
    assert taken["acquireTime"] != "then"


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="lease_duration_s > renew_deadline_s"):
        Pace(lease_duration_s=5)


class Candidate:
    """Leads until told otherwise."""

    def __init__(self, transport: InProcessTransport, clock: FakeClock, identity: str, pace: Pace = UPSTREAM) -> None:
        self.clock = clock
        self.elector = LeaderElector(
            Client(transport),
            Election(name="test", namespace="default", identity=identity, pace=pace),
            clock=clock,
            rng=random.Random(identity),
        )
        self.terms: list[Term] = []
        self.leading = False
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self, term: Term) -> None:
        self.terms.append(term)
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture
async def server(clock: FakeClock) -> AsyncIterator[ApiServer]:
    async with ApiServer(clock=clock) as made:
        yield made


@pytest.fixture
async def connect(server: ApiServer, clock: FakeClock) -> AsyncIterator[Callable[[], InProcessTransport]]:
    made: list[InProcessTransport] = []

    def make() -> InProcessTransport:
        made.append(InProcessTransport(server.app, clock=clock))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


Connect = Callable[[], InProcessTransport]


@pytest.mark.slow
async def test_one_leads_and_its_successor_takes_over_at_once_when_it_steps_down(
    connect: Connect, clock: FakeClock
) -> None:
    first = Candidate(connect(), clock, "first")
    await clock.advance(5)
    second = Candidate(connect(), clock, "second")
    await clock.advance(60)
    assert (first.leading, second.leading) == (True, False)
    assert second.elector.leader == "first"
    await first.stop()
    assert not first.leading
    await clock.advance(6)
    assert second.leading
    assert first.terms[0].lease_uid == second.terms[0].lease_uid
    assert second.terms[0].transitions > first.terms[0].transitions
    await second.stop()


@pytest.mark.slow
async def test_a_leader_that_vanishes_is_followed_only_after_its_lease_ran_out(
    connect: Connect, clock: FakeClock
) -> None:
    transport = connect()
    first = Candidate(transport, clock, "first")
    await clock.advance(5)
    second = Candidate(connect(), clock, "second")
    await clock.advance(5)
    await transport.close()
    handed_over: list[float] = []
    for second_passed in range(40):
        assert not (first.leading and second.leading)
        if second.leading:
            handed_over.append(second_passed)
        await clock.advance(1)
    assert second.leading
    assert 12 <= handed_over[0] <= 22
    with pytest.raises(LeadershipLost):
        await first.task
    await second.stop()


@pytest.mark.parametrize("killed_after_s", [0.0, 0.1, 0.3, 0.49])
async def test_at_a_prompt_pace_the_next_leads_within_three_seconds_after_a_leader_vanished(
    connect: Connect, clock: FakeClock, killed_after_s: float
) -> None:
    transport = connect()
    first = Candidate(transport, clock, "first", PROMPT)
    await clock.advance(5)
    second = Candidate(connect(), clock, "second", PROMPT)
    await clock.advance(5 + killed_after_s)
    assert (first.leading, second.leading) == (True, False)
    # As when its process is killed: it neither renews nor gives back.
    await transport.close()
    await clock.advance(1.4)
    assert not second.leading
    await clock.advance(1.4)
    assert second.leading
    with pytest.raises(LeadershipLost):
        await first.task
    await second.stop()


async def test_a_successor_with_the_same_identity_leads_at_once_in_a_later_term(
    connect: Connect, clock: FakeClock
) -> None:
    transport = connect()
    killed = Candidate(transport, clock, "master")
    await clock.advance(5)
    await transport.close()
    again = Candidate(connect(), clock, "master")
    await clock.advance(0.1)
    assert again.leading
    assert again.terms[0].transitions > killed.terms[0].transitions
    assert again.terms[0].fence > killed.terms[0].fence
    await again.stop()
    await killed.stop()


async def test_a_former_self_that_did_not_die_steps_down(connect: Connect, clock: FakeClock) -> None:
    orphan = Candidate(connect(), clock, "master", PROMPT)
    await clock.advance(5)
    again = Candidate(connect(), clock, "master", PROMPT)
    await clock.advance(2)
    assert (orphan.leading, again.leading) == (False, True)
    with pytest.raises(LeadershipLost):
        await orphan.task
    await clock.advance(10)
    assert again.leading
    assert len(again.terms) == 1
    await again.stop()


async def test_a_leader_whose_lease_was_taken_stops_at_once(connect: Connect, clock: FakeClock) -> None:
    first = Candidate(connect(), clock, "first")
    await clock.advance(5)
    client = Client(connect())
    patch = {"spec": {"holderIdentity": "usurper"}}
    await client.patch(LEASES, "test", patch, namespace="default")
    await clock.advance(5)
    assert not first.leading
    assert first.elector.term is None
    with pytest.raises(LeadershipLost):
        await first.task
    assert (await client.get(LEASES, "test", namespace="default"))["spec"]["holderIdentity"] == "usurper"


async def test_short_troubles_do_not_cost_the_leadership(server: ApiServer, clock: FakeClock) -> None:
    down = False

    async def flaky(scope: Any, receive: Any, send: Any) -> None:
        if down:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await server.app(scope, receive, send)

    transport = InProcessTransport(flaky, clock=clock)
    candidate = Candidate(transport, clock, "only")
    await clock.advance(5)
    down = True
    await clock.advance(6.5)
    down = False
    await clock.advance(30)
    assert candidate.leading
    assert len(candidate.terms) == 1
    await candidate.stop()
    await transport.close()


async def test_what_the_leader_raises_comes_out_and_the_lease_is_given_back(connect: Connect, clock: FakeClock) -> None:
    client = Client(connect())
    election = Election(name="test", namespace="default", identity="a")

    async def lead(term: Term) -> None:
        raise RuntimeError("boom")

    elector = LeaderElector(client, election, clock=clock, rng=random.Random(0))
    with pytest.raises(RuntimeError, match="boom"):
        await elector.run(lead)
    lease = await client.get(LEASES, "test", namespace="default")
    assert not lease["spec"].get("holderIdentity")
    with pytest.raises(errors.NotFound):
        await client.get(LEASES, "other", namespace="default")


class Line:
    """A candidate's way to the server, which can be dead in two ways."""

    def __init__(self, server: ApiServer, clock: FakeClock) -> None:
        self._server = server
        self._clock = clock
        self.state = "up"
        self.back = asyncio.Event()
        #: When the last request went through that can have written the Lease.
        self.written_at = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.state == "hangs":
            await self.back.wait()
        if self.state == "refuses":
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            if scope["method"] != "GET":
                self.written_at = self._clock.monotonic()
            await self._server.app(scope, receive, send)


PACES = [UPSTREAM, STEADY, PROMPT, Pace(lease_duration_s=2, renew_deadline_s=1.9, retry_period_s=1.5)]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("state", ["hangs", "refuses"])
@pytest.mark.parametrize("after", [0.1, 0.5, 0.9])
async def test_no_leader_acts_past_its_lease(
    server: ApiServer, clock: FakeClock, pace: Pace, state: str, after: float
) -> None:
    """Whatever the pace and whenever its server is lost, counted from the last write that renewed the Lease."""
    line = Line(server, clock)
    transport = InProcessTransport(line, clock=clock)
    leader = Candidate(transport, clock, "leader", pace)
    await clock.advance(10 * pace.lease_duration_s)
    before = line.written_at
    while line.written_at == before:
        await clock.advance(0.05)
    await clock.advance(after * pace.retry_period_s)
    line.state = state
    renewed = line.written_at
    left = renewed + pace.lease_duration_s - clock.monotonic()
    await clock.advance(left / 2)
    await clock.advance(left / 2 - 0.001)
    assert line.written_at == renewed
    assert not leader.leading
    await clock.advance(pace.renew_deadline_s)
    with pytest.raises(LeadershipLost):
        await leader.task
    line.back.set()
    closing = asyncio.create_task(transport.close())
    await clock.advance(10)
    await closing


async def test_a_write_after_the_lease_ran_out_is_not_sent(connect: Connect, clock: FakeClock) -> None:
    """A leader that was asleep past the end of its Lease wakes up in its work, before its renewal is looked at."""
    incumbent, asleep, awake = LeaderWrites(), asyncio.Event(), asyncio.Event()
    writer = Client(connect()).with_settings(term=incumbent.header)
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "default"}}
    refused: list[errors.Conflict] = []

    async def lead() -> None:
        asleep.set()
        await awake.wait()
        try:
            await writer.create(("", "v1", "configmaps"), note)
        except errors.Conflict as error:
            refused.append(error)

    transport = connect()
    election = Election(name="test", namespace="default", identity="first", pace=PROMPT)
    elector = LeaderElector(Client(transport), election, clock=clock, rng=random.Random(0))
    task = asyncio.create_task(incumbent.run(elector, lead))
    await clock.advance(0.1)
    assert asleep.is_set()
    # The whole process sleeps: time passes and no task runs.
    clock.oversleep(3)
    awake.set()
    await clock.settle()
    assert "is over" in str(refused[0])
    assert task.done()
    with pytest.raises(errors.NotFound):
        await Client(connect()).get(("", "v1", "configmaps"), "note", namespace="default")


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["up", "hangs", "refuses"]), st.sampled_from([0.5, 1.4, 3, 9, 14, 30])
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(_STEPS, st.sampled_from(PACES))
# A leader whose server refuses just after it renewed went on for the retry period and the renew deadline.
@example([(0, "refuses", 3)], PROMPT)
@example([(0, "refuses", 1.4), (0, "refuses", 3)], PROMPT)
def test_never_do_two_lead_and_in_the_end_one_does(steps: list[tuple[int, str, float]], pace: Pace) -> None:
    async def run() -> None:
        clock = FakeClock()
        leading: set[str] = set()
        fences: list[tuple[int, int]] = []

        async def lead(term: Term) -> None:
            assert not leading, f"{term.identity} leads beside {leading}"
            fences.append(term.fence)
            leading.add(term.identity)
            try:
                await asyncio.Event().wait()
            finally:
                leading.discard(term.identity)

        async def campaign(elector: LeaderElector) -> None:
            while True:
                with contextlib.suppress(LeadershipLost):
                    await elector.run(lead)

        async with ApiServer(clock=clock) as server:
            lines = [Line(server, clock) for _ in range(3)]
            transports = [InProcessTransport(line, clock=clock) for line in lines]
            campaigns = [
                asyncio.ensure_future(
                    campaign(
                        LeaderElector(
                            Client(transport),
                            Election(name="test", namespace="default", identity=f"candidate-{number}", pace=pace),
                            clock=clock,
                            rng=random.Random(number),
                        )
                    )
                )
                for number, transport in enumerate(transports)
            ]
            for number, state, seconds in steps:
                lines[number].state = state
                if state == "hangs":
                    lines[number].back.clear()
                else:
                    lines[number].back.set()
                await clock.advance(seconds)
                assert not [one for one in campaigns if one.done()]
            for line in lines:
                line.state = "up"
                line.back.set()
            await clock.advance(60)
            assert not [one for one in campaigns if one.done()]
            assert len(leading) == 1
            assert fences == sorted(set(fences)), "a term is not above the one before it"
            for one in campaigns:
                one.cancel()
            await asyncio.wait(campaigns)
            for transport in transports:
                closing = asyncio.ensure_future(transport.close())
                await clock.advance(10)
                await closing

    asyncio.run(run())
