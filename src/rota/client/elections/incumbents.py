"""Who writes as a leader says so, and goes on saying so when he is one no longer: then he is refused.

incumbent = Incumbent()
working = client.with_settings(term=incumbent.header)
await elector.run(lambda term: incumbent.serve(term, work))
"""

from collections.abc import Awaitable, Callable

from rota.client.elections.claims import Term


class Incumbent:
    """The last term for which this process was elected."""

    def __init__(self) -> None:
        self._header = ""

    def header(self) -> str:
        """What writes carry; empty before the first term."""
        return self._header

    async def serve(self, term: Term, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work of a term, in its name."""
        self._header = term.header
        await work()
