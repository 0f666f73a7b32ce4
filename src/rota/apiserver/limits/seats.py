"""Who sits, who waits and who is next. Pure: no clock, no event loop.

Seats are counted per level. A level may take any seat that no other level can claim as its own; so its own part is
there for it at any moment, and what lies idle elsewhere is put to use. Who finds no seat waits in its level, behind
the requests of its own user only. A seat that becomes free goes to the level that is furthest below its nominal part,
and there to the user that holds the fewest seats; among equals they take turns. So nobody starves: a user without a
seat is served before all who have one.
"""

import enum
from collections import deque
from collections.abc import Mapping
from typing import Final

from rota.apiserver.limits.levels import Allotment, Level


class State(enum.Enum):
    """What became of a request."""

    SEATED = "seated"
    WAITING = "waiting"
    #: There is no place to wait in either.
    REFUSED = "refused"
    #: It has left, served or not.
    GONE = "gone"


class Ticket:
    """One request's place."""

    __slots__ = ("flow", "level", "state", "width")

    def __init__(self, level: Level, flow: str, width: int) -> None:
        self.level: Final = level
        self.flow: Final = flow
        self.width: Final = width
        self.state = State.REFUSED


class _Flow:
    """One user's requests in a level."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held = 0
        self.waiting: Final[deque[Ticket]] = deque()


class _Level:
    """The users of one level."""

    __slots__ = ("allotment", "flows", "held", "lines", "waiting")

    def __init__(self, allotment: Allotment) -> None:
        self.allotment: Final = allotment
        self.held = 0
        self.waiting = 0
        #: Users with a seat or in a line; nobody else is remembered.
        self.flows: Final[dict[str, _Flow]] = {}
        #: Users that wait, by the seats that they hold; those who came first are first.
        self.lines: Final[dict[int, dict[str, _Flow]]] = {}

    @property
    def need(self) -> float:
        """How much of its part it has; the level with the least is next."""
        return self.held / self.allotment.nominal

    @property
    def claim(self) -> int:
        """Seats that nobody else may take."""
        return max(self.held, self.allotment.own)

    def hold(self, name: str, flow: _Flow, seats: int) -> None:
        """Count seats that a user takes, or with a negative number gives back."""
        self.unline(name, flow)
        self.held += seats
        flow.held += seats
        if flow.waiting:
            self.line_up(name, flow)
        elif not flow.held:
            self.flows.pop(name, None)

    def line_up(self, name: str, flow: _Flow) -> None:
        """Put a user at the end of the line of those who hold as many seats."""
        self.lines.setdefault(flow.held, {})[name] = flow

    def unline(self, name: str, flow: _Flow) -> None:
        """Take a user out of the line."""
        line = self.lines.get(flow.held)
        if line is not None and line.pop(name, None) is not None and not line:
            del self.lines[flow.held]

    def first(self) -> Ticket | None:
        """Who is next."""
        if not self.lines:
            return None
        line = self.lines[min(self.lines)]
        return next(iter(line.values())).waiting[0]


class Seats:
    """All places of a server."""

    def __init__(self, allotments: Mapping[Level, Allotment], *, seats: int, queue: int, queue_per_user: int) -> None:
        self._levels: Final = {level: _Level(allotment) for level, allotment in allotments.items()}
        own = sum(allotment.own for allotment in allotments.values())
        # with very few seats, one for each level may be more than there should be
        self._seats: Final = max(seats, own)
        self._queue: Final = queue
        self._queue_per_user: Final = queue_per_user
        #: The sum of what all levels claim; never more than there are seats.
        self._claimed = own

    def arrive(self, level: Level, flow: str, width: int = 1) -> Ticket:
        """A request has come: it is seated, waits, or is refused."""
        found = self._levels.get(level)
        ticket = Ticket(level, flow, width if found is None else self._fit(found, width))
        if found is None:
            ticket.state = State.SEATED
            return ticket
        if not found.waiting and self._room(found, ticket.width):
            self._seat(found, ticket)
            return ticket
        if found.waiting >= self._queue:
            return ticket
        queue = found.flows.get(flow)
        if queue is None:
            queue = found.flows[flow] = _Flow()
        if len(queue.waiting) >= self._queue_per_user:
            return ticket
        queue.waiting.append(ticket)
        found.waiting += 1
        if len(queue.waiting) == 1:
            found.line_up(flow, queue)
        ticket.state = State.WAITING
        return ticket

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """A request is over, or does not wait any longer; those who are seated in its place."""
        level = self._levels.get(ticket.level)
        before, ticket.state = ticket.state, State.GONE
        if level is None or before in (State.REFUSED, State.GONE):
            return []
        flow = level.flows[ticket.flow]
        if before is State.SEATED:
            self._hold(level, ticket, flow, -ticket.width)
        else:
            flow.waiting.remove(ticket)
            level.waiting -= 1
            if not flow.waiting:
                level.unline(ticket.flow, flow)
                if not flow.held:
                    del level.flows[ticket.flow]
        return self._fill() if any(one.waiting for one in self._levels.values()) else []

    def held(self, level: Level) -> int:
        """Seats that a level has."""
        return self._levels[level].held if level in self._levels else 0

    def waiting(self, level: Level) -> int:
        """Requests of a level that wait."""
        return self._levels[level].waiting if level in self._levels else 0

    def _fit(self, level: _Level, width: int) -> int:
        """No request is so wide that its level could never seat it."""
        return min(width, level.allotment.own)

    def _room(self, level: _Level, width: int) -> bool:
        claim = max(level.held + width, level.allotment.own)
        return self._claimed - level.claim + claim <= self._seats

    def _seat(self, level: _Level, ticket: Ticket) -> None:
        flow = level.flows.get(ticket.flow)
        if flow is None:
            flow = level.flows[ticket.flow] = _Flow()
        self._hold(level, ticket, flow, ticket.width)
        ticket.state = State.SEATED

    def _hold(self, level: _Level, ticket: Ticket, flow: _Flow, seats: int) -> None:
        before = level.claim
        level.hold(ticket.flow, flow, seats)
        self._claimed += level.claim - before

    def _fill(self) -> list[Ticket]:
        """Seat whoever is next, until nobody who is next finds room."""
        seated: list[Ticket] = []
        while True:
            for level in sorted(self._levels.values(), key=lambda one: one.need):
                ticket = level.first()
                if ticket is not None and self._room(level, ticket.width):
                    flow = level.flows[ticket.flow]
                    level.unline(ticket.flow, flow)
                    flow.waiting.popleft()
                    level.waiting -= 1
                    self._seat(level, ticket)
                    seated.append(ticket)
                    break
            else:
                return seated
