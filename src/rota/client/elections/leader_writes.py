"""Fencing of a leader's writes: each carries its term, and none is sent after the term.

    writes = LeaderWrites()
    working = client.with_settings(term=writes.header)
    await writes.run(elector, work)

Rota's server refuses a write of a term that is over. A stock server does not know terms: there the own clock, which is
read before each write, stops a leader that has overslept the end of its Lease.
"""

from collections.abc import Awaitable, Callable

from rota.api import errors
from rota.client.elections.elector import LeaderElector
from rota.client.elections.lease_claims import Term


class LeaderWrites:
    """The last term for which this process was elected."""

    def __init__(self) -> None:
        self._term: Term | None = None
        self._current: Callable[[], Term | None] = lambda: None

    def header(self) -> str:
        """The header of the current term, empty before the first one; Conflict if it is over by the own clock."""
        term = self._term
        if term is None:
            return ""
        if self._current() is not term:
            raise errors.Conflict(
                f"the term of {term.identity} as the holder of the lease {term.namespace}/{term.name} is over: "
                "it was not renewed in time"
            )
        return term.header

    async def run(self, elector: LeaderElector, work: Callable[[], Awaitable[None]]) -> None:
        """Like `LeaderElector.run`, with work that writes by `header`."""

        async def serve(term: Term) -> None:
            self._term, self._current = term, lambda: elector.term
            await work()

        await elector.run(serve)
