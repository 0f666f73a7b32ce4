"""Which requests have a seat, which wait, and which is next. Pure: no clock, no event loop.

Seats are counted per level. A level may take any seat that is not guaranteed to another level; so its own part is
always available, and idle seats of others are used. A request without a seat waits in its level, behind the requests of
its own user only. A free seat goes to the level that is furthest below its nominal share, and there to the user with
the fewest seats; equal users take turns. So no user starves: a user without a seat is served before all who have one.
"""

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from rota.apiserver.flow_control.priority_levels import Allotment, PriorityLevel


class State(enum.Enum):
    """The state of a request."""

    SEATED = "seated"
    WAITING = "waiting"
    #: The queue is full.
    REFUSED = "refused"
    #: It has left, served or not.
    GONE = "gone"


# Members of an enumeration are slow to look up, and every request passes here.
_SEATED: Final = State.SEATED
_WAITING: Final = State.WAITING
_NOBODY: Final[Sequence["SeatRequest"]] = ()


class SeatRequest:
    """One request."""

    __slots__ = ("flow", "level", "state", "width")

    def __init__(self, level: PriorityLevel, flow: str, width: int, state: State) -> None:
        self.level = level
        self.flow = flow
        self.width = width
        self.state = state


class _Level:
    """The users of one level, by name."""

    __slots__ = ("claim", "held", "lines", "nominal", "own", "queues", "users", "waiting")

    def __init__(self, allotment: Allotment) -> None:
        self.nominal: Final = allotment.nominal
        self.own: Final = allotment.own
        self.held = 0
        #: Seats that no other level may take: those in use, or guaranteed.
        self.claim = allotment.own
        self.waiting = 0
        #: Seats in use, by user.
        self.users: Final[dict[str, int]] = {}
        #: Waiting requests, by user.
        self.queues: Final[dict[str, deque[SeatRequest]]] = {}
        #: Users with waiting requests by the number of their seats, each in the order in which they are served.
        self.lines: Final[dict[int, dict[str, deque[SeatRequest]]]] = {}

    def line_up(self, user: str) -> None:
        """Put a user with waiting requests at the end of the line of users with as many seats."""
        self.lines.setdefault(self.users.get(user, 0), {})[user] = self.queues[user]

    def unline(self, user: str) -> None:
        """Take a user out of the line, before the number of its seats changes."""
        seats = self.users.get(user, 0)
        line = self.lines.get(seats)
        if line is not None and line.pop(user, None) is not None and not line:
            del self.lines[seats]

    def queue(self, seat_request: SeatRequest) -> None:
        """Queue a request."""
        self.waiting += 1
        queue = self.queues.get(seat_request.flow)
        if queue is None:
            self.queues[seat_request.flow] = deque((seat_request,))
            self.line_up(seat_request.flow)
        else:
            queue.append(seat_request)

    def unqueue(self, seat_request: SeatRequest) -> None:
        """Remove a request from the queue."""
        self.waiting -= 1
        queue = self.queues[seat_request.flow]
        queue.remove(seat_request)
        if not queue:
            self.unline(seat_request.flow)
            del self.queues[seat_request.flow]

    def first(self) -> SeatRequest | None:
        """The next request."""
        if not self.lines:
            return None
        line = self.lines[min(self.lines)]
        return next(iter(line.values()))[0]


class Seats:
    """All seats of a server."""

    def __init__(
        self, allotments: Mapping[PriorityLevel, Allotment], *, seats: int, queue: int, queue_per_user: int
    ) -> None:
        """A level without an allotment is not limited."""
        self._levels: Final = [_Level(allotments[one]) if one in allotments else None for one in PriorityLevel]
        self._limited: Final = [one for one in self._levels if one is not None]
        own = sum(allotment.own for allotment in allotments.values())
        #: Seats that are not guaranteed to a level; with very few seats, one for each level may exceed the total.
        self._spare = max(seats - own, 0)
        self._queue: Final = queue
        self._queue_per_user: Final = queue_per_user
        self._waiting = 0

    def arrive(self, level: PriorityLevel, flow: str, width: int = 1) -> SeatRequest:
        """A request arrives: it gets a seat, waits, or is refused."""
        found = self._levels[level]
        if found is None:
            return SeatRequest(level, flow, width, _SEATED)
        # no request is wider than its level
        seat_request = SeatRequest(level, flow, min(width, found.own), State.REFUSED)
        if not found.waiting and found.held + seat_request.width - found.claim <= self._spare:
            self._seat(found, seat_request)
        elif found.waiting < self._queue and len(found.queues.get(flow, _NOBODY)) < self._queue_per_user:
            seat_request.state = _WAITING
            found.queue(seat_request)
            self._waiting += 1
        return seat_request

    def leave(self, seat_request: SeatRequest) -> Sequence[SeatRequest]:
        """A request has ended, or stops waiting; returns the requests that get its seats."""
        level = self._levels[seat_request.level]
        before, seat_request.state = seat_request.state, State.GONE
        if level is None:
            return _NOBODY
        if before is _SEATED:
            self._hold(level, seat_request.flow, -seat_request.width)
        elif before is _WAITING:
            level.unqueue(seat_request)
            self._waiting -= 1
        return self._fill() if self._waiting else _NOBODY

    def held(self, level: PriorityLevel) -> int:
        """The seats in use by a level."""
        found = self._levels[level]
        return found.held if found is not None else 0

    def waiting(self, level: PriorityLevel) -> int:
        """The waiting requests of a level."""
        found = self._levels[level]
        return found.waiting if found is not None else 0

    def _seat(self, level: _Level, seat_request: SeatRequest) -> None:
        self._hold(level, seat_request.flow, seat_request.width)
        seat_request.state = _SEATED

    def _hold(self, level: _Level, user: str, seats: int) -> None:
        """Count seats that a user takes, or with a negative number returns."""
        lined = user in level.queues
        if lined:
            level.unline(user)
        level.held += seats
        claim = max(level.own, level.held)
        self._spare += level.claim - claim
        level.claim = claim
        mine = level.users.get(user, 0) + seats
        if mine:
            level.users[user] = mine
        else:
            del level.users[user]
        if lined:
            level.line_up(user)

    def _fill(self) -> list[SeatRequest]:
        """Seat the next requests while there are seats."""
        seated: list[SeatRequest] = []
        while True:
            for level in sorted(self._limited, key=lambda one: one.held / one.nominal):
                seat_request = level.first()
                if seat_request is not None and level.held + seat_request.width - level.claim <= self._spare:
                    level.unqueue(seat_request)
                    self._waiting -= 1
                    self._seat(level, seat_request)
                    seated.append(seat_request)
                    break
            else:
                return seated
