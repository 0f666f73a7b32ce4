"""Laws of the seats, whatever comes in whatever order: bounds hold, nobody starves, no seat lies idle."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from rota.apiserver.limits import levels
from rota.apiserver.limits.levels import Level
from rota.apiserver.limits.seats import Seats, State, Ticket

SEATED_LEVELS = list(levels.SHARES)
QUEUE, QUEUE_PER_USER = 12, 5


def seats(number: int) -> Seats:
    return Seats(levels.allot(number), seats=number, queue=QUEUE, queue_per_user=QUEUE_PER_USER)


class Crowd(RuleBasedStateMachine):
    """Requests come and go; a model beside the real thing counts them."""

    tickets = Bundle("tickets")

    @initialize(number=st.integers(1, 60))
    def open(self, number: int) -> None:
        self.allotments = levels.allot(number)
        self.number = max(number, sum(one.own for one in self.allotments.values()))
        self.seats = seats(number)
        self.present: list[Ticket] = []

    @rule(
        target=tickets,
        level=st.sampled_from(list(Level)),
        flow=st.sampled_from("abcdef"),
        width=st.integers(1, 5),
    )
    def arrive(self, level: Level, flow: str, width: int) -> Ticket:
        free = level is not Level.EXEMPT and self.held(level) < self.allotments[level].own
        waiting = self.seats.waiting(level)
        ticket = self.seats.arrive(level, flow, width)
        if level is Level.EXEMPT:
            assert ticket.state is State.SEATED
        elif free and not waiting and ticket.width == 1:
            assert ticket.state is State.SEATED, "a level's own part is there at any moment"
        if ticket.state is State.REFUSED:
            mine = sum(one.flow == flow for one in self.waiting(level))
            assert waiting == QUEUE or mine == QUEUE_PER_USER
        else:
            self.present.append(ticket)
        return ticket

    @rule(ticket=consumes(tickets))
    def leave(self, ticket: Ticket) -> None:
        was = {one: one.state for one in self.present}
        seated = self.seats.leave(ticket)
        if ticket in self.present:
            self.present.remove(ticket)
        assert all(was[one] is State.WAITING and one.state is State.SEATED for one in seated)
        assert not self.seats.leave(ticket)

    @invariant()
    def counts_are_right_and_bounds_hold(self) -> None:
        total = 0
        for level in SEATED_LEVELS:
            assert self.seats.held(level) == self.held(level)
            assert self.seats.waiting(level) == len(self.waiting(level)) <= QUEUE
            assert max(Counter(one.flow for one in self.waiting(level)).values(), default=0) <= QUEUE_PER_USER
            total += max(self.held(level), self.allotments[level].own)
        assert total <= self.number

    @invariant()
    def nobody_waits_while_there_is_room(self) -> None:
        claims = {level: max(self.held(level), self.allotments[level].own) for level in SEATED_LEVELS}
        for level in SEATED_LEVELS:
            widest = max((one.width for one in self.waiting(level)), default=None)
            if widest is not None:
                others = sum(claim for one, claim in claims.items() if one is not level)
                assert others + max(self.held(level) + widest, self.allotments[level].own) > self.number

    def held(self, level: Level) -> int:
        return sum(one.width for one in self.present if one.level is level and one.state is State.SEATED)

    def waiting(self, level: Level) -> list[Ticket]:
        return [one for one in self.present if one.level is level and one.state is State.WAITING]


Crowd.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestCrowd = Crowd.TestCase


@dataclass
class Level1:
    """One level's seats, all taken by a crowd of users that always have more to ask."""

    seats: Seats
    running: list[Ticket] = field(default_factory=list)

    def ask(self, flow: str) -> Ticket:
        ticket = self.seats.arrive(Level.OTHERS, flow)
        if ticket.state is State.SEATED:
            self.running.append(ticket)
        return ticket

    def finish(self, index: int) -> None:
        self.running += self.seats.leave(self.running.pop(index))


def seated(ticket: Ticket) -> bool:
    return ticket.state is State.SEATED


@given(
    greedy=st.integers(1, 8),
    number=st.integers(1, 30),
    ends=st.lists(st.integers(0, 1000), min_size=60, max_size=60),
)
def test_who_has_no_seat_is_served_within_as_many_turns_as_there_are_others_without(
    greedy: int, number: int, ends: list[int]
) -> None:
    crowd = Level1(Seats(levels.allot(number), seats=number, queue=10_000, queue_per_user=1000))
    names = [f"greedy-{index}" for index in range(greedy)]
    for _ in range(100):
        for name in names:
            crowd.ask(name)
    modest = crowd.ask("modest")
    assert not seated(modest)
    turns = 0
    for end in ends:
        crowd.finish(end % len(crowd.running))
        for name in names:
            crowd.ask(name)
        turns += 1
        if seated(modest):
            break
    assert seated(modest)
    assert turns <= greedy + 1


def test_users_of_a_level_hold_as_many_seats_each() -> None:
    crowd = Level1(Seats(levels.allot(100), seats=100, queue=10_000, queue_per_user=1000))
    for _ in range(300):
        crowd.ask("first")
    assert crowd.seats.held(Level.OTHERS) > 50
    for _ in range(300):
        crowd.ask("second")
    for _ in range(400):
        crowd.finish(0)
        crowd.ask("first")
        crowd.ask("second")
    shares = Counter(ticket.flow for ticket in crowd.running)
    assert abs(shares["first"] - shares["second"]) <= 1


def test_heartbeats_find_a_seat_in_the_worst_of_crowds() -> None:
    full = seats(60)
    for level in (Level.SYSTEM, Level.WORKLOADS, Level.OTHERS):
        for number in range(200):
            full.arrive(level, f"user-{number}", 1 + number % 4)
    beats = [full.arrive(Level.HEARTBEATS, f"node-{number}") for number in range(12)]
    assert {one.state for one in beats} == {State.SEATED}


def test_an_idle_level_lends_its_seats_and_gets_them_back() -> None:
    shared = seats(100)
    running = [shared.arrive(Level.WORKLOADS, "pods") for _ in range(200)]
    borrowed = shared.held(Level.WORKLOADS)
    assert borrowed > levels.allot(100)[Level.WORKLOADS].nominal
    system = [shared.arrive(Level.SYSTEM, "scheduler") for _ in range(12)]
    system += [shared.arrive(Level.SYSTEM, "controller") for _ in range(8)]
    assert {one.state for one in system[12:]} <= {State.SEATED, State.WAITING}
    for ticket in running[:40]:
        shared.leave(ticket)
    waiting = [one for one in system if one.state is State.WAITING]
    assert waiting == []
    assert shared.held(Level.WORKLOADS) < borrowed


def test_nothing_is_remembered_of_users_that_are_gone() -> None:
    crowd = seats(4)
    for number in range(500):
        tickets = [crowd.arrive(Level.OTHERS, f"user-{number}-{index}") for index in range(20)]
        for ticket in reversed(tickets):
            crowd.leave(ticket)
    assert all(not (level.users or level.queues or level.lines or level.held) for level in crowd._limited)
