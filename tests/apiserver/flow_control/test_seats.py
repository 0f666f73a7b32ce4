"""Properties of the seats for any order of requests: bounds hold, no user starves, no seat is idle while requests
wait.
"""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from rota.apiserver.flow_control import priority_levels
from rota.apiserver.flow_control.priority_levels import PriorityLevel
from rota.apiserver.flow_control.seats import SeatRequest, Seats, State

SEATED_LEVELS = list(priority_levels.SHARES)
QUEUE, QUEUE_PER_USER = 12, 5


def seats(number: int) -> Seats:
    return Seats(priority_levels.allot(number), seats=number, queue=QUEUE, queue_per_user=QUEUE_PER_USER)


class Crowd(RuleBasedStateMachine):
    """Requests arrive and leave; a model beside the implementation counts them."""

    tickets = Bundle("tickets")

    @initialize(number=st.integers(1, 60))
    def open(self, number: int) -> None:
        self.allotments = priority_levels.allot(number)
        self.number = max(number, sum(one.own for one in self.allotments.values()))
        self.seats = seats(number)
        self.present: list[SeatRequest] = []

    @rule(
        target=tickets,
        level=st.sampled_from(list(PriorityLevel)),
        flow=st.sampled_from("abcdef"),
        width=st.integers(1, 5),
    )
    def arrive(self, level: PriorityLevel, flow: str, width: int) -> SeatRequest:
        free = level is not PriorityLevel.EXEMPT and self.held(level) < self.allotments[level].own
        waiting = self.seats.waiting(level)
        seat_request = self.seats.arrive(level, flow, width)
        if level is PriorityLevel.EXEMPT:
            assert seat_request.state is State.SEATED
        elif free and not waiting and seat_request.width == 1:
            assert seat_request.state is State.SEATED, "a level's own part is there at any moment"
        if seat_request.state is State.REFUSED:
            mine = sum(one.flow == flow for one in self.waiting(level))
            assert waiting == QUEUE or mine == QUEUE_PER_USER
        else:
            self.present.append(seat_request)
        return seat_request

    @rule(seat_request=consumes(tickets))
    def leave(self, seat_request: SeatRequest) -> None:
        was = {one: one.state for one in self.present}
        seated = self.seats.leave(seat_request)
        if seat_request in self.present:
            self.present.remove(seat_request)
        assert all(was[one] is State.WAITING and one.state is State.SEATED for one in seated)
        assert not self.seats.leave(seat_request)

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

    def held(self, level: PriorityLevel) -> int:
        return sum(one.width for one in self.present if one.level is level and one.state is State.SEATED)

    def waiting(self, level: PriorityLevel) -> list[SeatRequest]:
        return [one for one in self.present if one.level is level and one.state is State.WAITING]


Crowd.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestCrowd = Crowd.TestCase


@dataclass
class Level1:
    """One level's seats, all taken by users that always have more requests."""

    seats: Seats
    running: list[SeatRequest] = field(default_factory=list)

    def ask(self, flow: str) -> SeatRequest:
        seat_request = self.seats.arrive(PriorityLevel.OTHERS, flow)
        if seat_request.state is State.SEATED:
            self.running.append(seat_request)
        return seat_request

    def finish(self, index: int) -> None:
        self.running += self.seats.leave(self.running.pop(index))


def seated(seat_request: SeatRequest) -> bool:
    return seat_request.state is State.SEATED


@given(
    greedy=st.integers(1, 8),
    number=st.integers(1, 30),
    ends=st.lists(st.integers(0, 1000), min_size=60, max_size=60),
)
def test_a_user_without_a_seat_is_served_within_one_round(greedy: int, number: int, ends: list[int]) -> None:
    domain_count = Level1(Seats(priority_levels.allot(number), seats=number, queue=10_000, queue_per_user=1000))
    names = [f"greedy-{index}" for index in range(greedy)]
    for _ in range(100):
        for name in names:
            domain_count.ask(name)
    modest = domain_count.ask("modest")
    assert not seated(modest)
    turns = 0
    for end in ends:
        domain_count.finish(end % len(domain_count.running))
        for name in names:
            domain_count.ask(name)
        turns += 1
        if seated(modest):
            break
    assert seated(modest)
    assert turns <= greedy + 1


def test_users_of_a_level_hold_as_many_seats_each() -> None:
    domain_count = Level1(Seats(priority_levels.allot(100), seats=100, queue=10_000, queue_per_user=1000))
    for _ in range(300):
        domain_count.ask("first")
    assert domain_count.seats.held(PriorityLevel.OTHERS) > 50
    for _ in range(300):
        domain_count.ask("second")
    for _ in range(400):
        domain_count.finish(0)
        domain_count.ask("first")
        domain_count.ask("second")
    shares = Counter(seat_request.flow for seat_request in domain_count.running)
    assert abs(shares["first"] - shares["second"]) <= 1


def test_heartbeats_find_a_seat_in_the_worst_of_crowds() -> None:
    full = seats(60)
    for level in (PriorityLevel.SYSTEM, PriorityLevel.WORKLOADS, PriorityLevel.OTHERS):
        for number in range(200):
            full.arrive(level, f"user-{number}", 1 + number % 4)
    beats = [full.arrive(PriorityLevel.HEARTBEATS, f"node-{number}") for number in range(12)]
    assert {one.state for one in beats} == {State.SEATED}


def test_an_idle_level_lends_its_seats_and_gets_them_back() -> None:
    shared = seats(100)
    running = [shared.arrive(PriorityLevel.WORKLOADS, "pods") for _ in range(200)]
    borrowed = shared.held(PriorityLevel.WORKLOADS)
    assert borrowed > priority_levels.allot(100)[PriorityLevel.WORKLOADS].nominal
    system = [shared.arrive(PriorityLevel.SYSTEM, "scheduler") for _ in range(12)]
    system += [shared.arrive(PriorityLevel.SYSTEM, "controller") for _ in range(8)]
    assert {one.state for one in system[12:]} <= {State.SEATED, State.WAITING}
    for seat_request in running[:40]:
        shared.leave(seat_request)
    waiting = [one for one in system if one.state is State.WAITING]
    assert waiting == []
    assert shared.held(PriorityLevel.WORKLOADS) < borrowed


def test_nothing_is_remembered_of_users_that_are_gone() -> None:
    domain_count = seats(4)
    for number in range(500):
        tickets = [domain_count.arrive(PriorityLevel.OTHERS, f"user-{number}-{index}") for index in range(20)]
        for seat_request in reversed(tickets):
            domain_count.leave(seat_request)
    assert all(not (level.users or level.queues or level.lines or level.held) for level in domain_count._limited)
